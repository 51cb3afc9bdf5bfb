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
RENAMED = {"server": "etcd"}
"""Go names a program after its package's last path element."""


def build(*modules: str) -> None:
    """Build the programs of those modules into the cache, unless they are there in the right version."""
    if not shutil.which("go"):
        raise StepFailedError(
            "Go 1.21 or newer is not installed; it builds kind and the node image's programs"
        )
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
    # coredns has a main of its own, which picks its plugins; the others are tools of their go.mod.
    target = "." if module == "coredns" else "tool"
    env = {**os.environ, "CGO_ENABLED": "0", "GOBIN": "", "GOFLAGS": "-mod=readonly"}
    command = ("go", "build", "-trimpath", "-ldflags", LINK, "-o", f"{BIN}/", target)
    run(*command, cwd=TOOLS / module, env=env, deadline=2400)
    for made, name in RENAMED.items():
        if (BIN / made).exists():
            (BIN / made).replace(BIN / name)
