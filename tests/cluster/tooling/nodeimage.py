"""A kind node image where no registry serves one: Debian, kind's own files, Kubernetes built from Go modules.

The order is that of kind's Dockerfile for its base image and of `kind build node-image`; each function is one
of their concerns.
"""

import json
import shutil
import subprocess
from pathlib import Path

from . import fingerprint, gotools, rootfs
from .places import BIN, CACHE, KUBERNETES, NODE_FILES, NODE_IMAGE
from .steps import run, step
from .systemimages import archive_system_images, store_in_node

WORK = CACHE / "node-image"
UNITS = ("kubelet", "containerd", "undo-mount-hacks")
UNWANTED_UNITS = (
    "sysinit.target.wants/systemd-tmpfiles-setup.service",
    "multi-user.target.wants/*",
    "local-fs.target.wants/*",
    "sockets.target.wants/*udev*",
    "sockets.target.wants/*initctl*",
    "basic.target.wants/*",
)


def build() -> str:
    """Build the node image unless one of the same inputs is there, and return its name."""
    gotools.build(*gotools.FOR_NODE_IMAGE)
    gotools.build_pause()
    system, proxy = rootfs.node(), rootfs.proxy()
    inputs = fingerprint.of_files(
        [
            NODE_FILES / "cni.conflist.template",
            NODE_FILES / "runc-without-sys-resource",
            Path(__file__),
            Path(__file__).with_name("systemimages.py"),
            system.with_suffix(".made-from"),
            proxy.with_suffix(".made-from"),
            *(gotools.STAMPS / module for module in gotools.FOR_NODE_IMAGE),
        ]
    )
    if run(
        "docker", "image", "ls", "-q", "--filter", f"label=dev.specdec.inputs={inputs}", NODE_IMAGE
    ).strip():
        return NODE_IMAGE
    with step(f"node image {NODE_IMAGE}"):
        shutil.rmtree(WORK, ignore_errors=True)
        node = WORK / "root"
        node.mkdir(parents=True)
        run("tar", "-C", node, "-xf", system)
        _lay_kinds_files(node)
        _settle_systemd(node)
        _settle_containerd(node)
        _lay_kubernetes(node)
        archive = archive_system_images(WORK, proxy)
        store_in_node(archive, node, WORK)
        _import(node, inputs)
        shutil.rmtree(WORK)
    return NODE_IMAGE


def _lay_kinds_files(node: Path) -> None:
    """Copy the entry point, units and settings that kind's source carries for its base image."""
    files = Path(gotools.module_folder("kind", "sigs.k8s.io/kind")) / "images" / "base" / "files"
    for name in ("etc", "kind", "usr"):
        shutil.copytree(files / name, node / name, dirs_exist_ok=True, symlinks=True)
    # The module cache is read-only and keeps no execute bits.
    run("chmod", "-R", "u+w", node / "kind", node / "usr" / "local", node / "etc")
    for folder in (node / "usr" / "local" / "bin", node / "kind" / "bin"):
        for program in folder.iterdir():
            program.chmod(0o755)
    (node / "kind").chmod(0o755)
    (node / "kind" / "version").write_text(KUBERNETES)


def _settle_systemd(node: Path) -> None:
    """Leave only the units that a node in a container needs."""
    for pattern in UNWANTED_UNITS:
        for unit in (node / "lib" / "systemd" / "system").glob(pattern):
            unit.unlink()
    units = node / "etc" / "systemd" / "system"
    for folder in units.glob("*.wants"):
        shutil.rmtree(folder)
    wanted = units / "multi-user.target.wants"
    wanted.mkdir()
    for name in UNITS:
        (wanted / f"{name}.service").symlink_to(f"/etc/systemd/system/{name}.service")
    (units / "systemd-binfmt.service").symlink_to("/dev/null")
    with (node / "etc" / "systemd" / "journald.conf").open("a") as settings:
        settings.write("ReadKMsg=no\n")
    init = node / "sbin" / "init"
    init.unlink(missing_ok=True)
    init.symlink_to("/usr/lib/systemd/systemd")


def _settle_containerd(node: Path) -> None:
    """Use Debian's containerd and CNI plugins, and a runc that asks for no capability that is not there."""
    for program in ("containerd", "ctr", "containerd-shim-runc-v2"):
        link = node / "usr" / "local" / "bin" / program
        link.unlink(missing_ok=True)
        link.symlink_to(f"/usr/bin/{program}")
    (node / "opt" / "cni").mkdir(parents=True, exist_ok=True)
    (node / "opt" / "cni" / "bin").symlink_to("/usr/lib/cni")
    (node / "etc" / "cni" / "net.d").mkdir(parents=True)
    shutil.copy(NODE_FILES / "cni.conflist.template", node / "etc" / "containerd" / "cni.conflist.template")
    wrapper = node / "usr" / "local" / "sbin" / "runc"
    wrapper.parent.mkdir(exist_ok=True)
    shutil.copy(NODE_FILES / "runc-without-sys-resource", wrapper)
    spec = json.loads(run("chroot", node, "ctr", "oci", "spec"))
    hooks = spec.setdefault("hooks", {}).setdefault("createContainer", [])
    hooks.append({"path": "/kind/bin/mount-product-files.sh"})
    del spec["process"]["rlimits"]
    (node / "etc" / "containerd" / "cri-base.json").write_text(json.dumps(spec))
    settings = node / "etc" / "containerd" / "config.toml"
    text = settings.read_text().replace("restrict_oom_score_adj = false", "restrict_oom_score_adj = true")
    text = text.replace('pause:3.10"', 'pause:3.10.1"')
    # containerd fills the template in once the node has its podCIDR: no CNI daemon is needed.
    text += '\n[plugins."io.containerd.grpc.v1.cri".cni]\n  conf_template = "/etc/containerd/cni.conflist.template"\n'
    settings.write_text(text)


def _lay_kubernetes(node: Path) -> None:
    for name in ("kubelet", "kubectl", "kubeadm"):
        shutil.copy(BIN / name, node / "usr" / "bin" / name)
    shutil.copy(BIN / "crictl", node / "usr" / "local" / "bin" / "crictl")
    (node / "etc" / "kubernetes" / "manifests").mkdir(parents=True)


def _import(node: Path, inputs: str) -> None:
    """Make the folder one layer of an image: tar and docker side by side, with no file in between."""
    changes = (
        'ENTRYPOINT ["/usr/local/bin/entrypoint","/sbin/init"]',
        "ENV container=docker",
        f"LABEL dev.specdec.inputs={inputs}",
    )
    options = [word for change in changes for word in ("--change", change)]
    with subprocess.Popen(("tar", "-C", node, "-c", "."), stdout=subprocess.PIPE) as tar:
        command = ("docker", "import", *options, "-", NODE_IMAGE)
        subprocess.run(command, stdin=tar.stdout, check=True, stdout=subprocess.DEVNULL, timeout=600)
