"""Programs built from Go modules: what the node image is made of, and the clients for the host.

Each module's folder in tests/cluster/node/tools pins its versions. A stamp per module lets a build that was
interrupted go on with the next one; inside a module Go's own build cache does the same.
"""

import os
import shutil

from . import fingerprint
from .places import BIN, CRICTL, KUBERNETES, NODE_FILES
from .steps import StepFailedError, run, step

TOOLS = NODE_FILES / "tools"
STAMPS = BIN / ".made-from"
MAJOR, MINOR = KUBERNETES.removeprefix("v").split(".")[:2]
LINK = (
    f"-s -w -X k8s.io/component-base/version.gitVersion={KUBERNETES}"
    f" -X k8s.io/component-base/version.gitMajor={MAJOR} -X k8s.io/component-base/version.gitMinor={MINOR}"
    f" -X sigs.k8s.io/cri-tools/pkg/version.Version={CRICTL}"
)
PROGRAMS = {
    "kubernetes": (
        "kube-apiserver",
        "kube-controller-manager",
        "kube-proxy",
        "kube-scheduler",
        "kubeadm",
        "kubectl",
        "kubelet",
    ),
    "etcd": ("etcd",),
    "kind": ("kind",),
    "crictl": ("crictl",),
    "coredns": ("coredns",),
    "helm": ("helm",),
}
FOR_NODE_IMAGE = ("kubernetes", "etcd", "kind", "crictl", "coredns")
CLIENTS = {"kind": ("kind", "sigs.k8s.io/kind"), "kubectl": ("kubernetes", "k8s.io/kubernetes/cmd/kubectl")}
"""What a cluster on the stock node image takes: each with its module here and its package."""
RENAMED = {"server": "etcd"}
"""Go names a program after its package's last path element."""


def provide_clients() -> None:
    """Put kind and kubectl into the cache: the machine's own, or built."""
    for name, (module, package) in CLIENTS.items():
        if (BIN / name).exists():
            continue
        if found := shutil.which(name):
            (BIN / name).symlink_to(found)
            continue
        with step(f"build {name} from Go modules"):
            _go_build(module, package)


def build(*modules: str) -> None:
    """Build the programs of those modules into the cache, unless they are there in the right version."""
    STAMPS.mkdir(parents=True, exist_ok=True)
    for module in modules:
        wanted = fingerprint.of_files([TOOLS / module], LINK)
        stamp = STAMPS / module
        if fingerprint.is_current(stamp, wanted) and all((BIN / name).exists() for name in PROGRAMS[module]):
            continue
        with step(f"build {module} from Go modules"):
            _build(module)
        stamp.write_text(wanted)


def build_pause() -> None:
    """Compile the pause program, the one C file of Kubernetes: the sandbox of every pod runs it."""
    source = module_folder("kubernetes", "k8s.io/kubernetes") + "/build/pause/linux/pause.c"
    if not (BIN / "pause").exists():
        with step("build pause"):
            run("gcc", "-Os", "-static", "-o", BIN / "pause", source)


def module_folder(module: str, path: str) -> str:
    """Find where Go keeps the sources of a module, downloading them if need be."""
    run("go", "mod", "download", path, cwd=TOOLS / module)
    return run("go", "list", "-m", "-f", "{{.Dir}}", path, cwd=TOOLS / module).strip()


def _build(module: str) -> None:
    for link in (BIN / name for name in PROGRAMS[module]):
        # Go would write through it, into the machine's own program.
        if link.is_symlink():
            link.unlink()
    # coredns has a main of its own, which picks its plugins; the others are tools of their go.mod.
    _go_build(module, "." if module == "coredns" else "tool")
    for made, name in RENAMED.items():
        if (BIN / made).exists():
            (BIN / made).replace(BIN / name)


def _go_build(module: str, package: str) -> None:
    if not shutil.which("go"):
        raise StepFailedError(
            "Go 1.21 or newer is not installed; it builds kind and the node image's programs"
        )
    env = {**os.environ, "CGO_ENABLED": "0", "GOBIN": "", "GOFLAGS": "-mod=readonly"}
    command = ("go", "build", "-trimpath", "-ldflags", LINK, "-o", f"{BIN}/", package)
    run(*command, cwd=TOOLS / module, env=env, deadline=2400)
