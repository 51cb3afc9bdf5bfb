"""The images of Kubernetes' own containers, one binary each, put into the node's content store."""

import os
import shutil
import signal
import subprocess
from pathlib import Path

from .places import BIN, COREDNS, ETCD, KUBERNETES, PAUSE
from .steps import run, wait_for

KUBEADM_PREFIX = "registry.k8s.io"
"""kubeadm and kubelet look for these names; nothing is fetched from there."""
ONE_BINARY = {
    "kube-apiserver": f"kube-apiserver:{KUBERNETES}",
    "kube-controller-manager": f"kube-controller-manager:{KUBERNETES}",
    "kube-scheduler": f"kube-scheduler:{KUBERNETES}",
    "etcd": f"etcd:{ETCD}",
    "pause": f"pause:{PAUSE}",
    "coredns": f"coredns/coredns:{COREDNS}",
}


def archive_system_images(work: Path, proxy_system: Path) -> Path:
    """Make the images in Docker and save them to one archive."""
    names = []
    for program, image in ONE_BINARY.items():
        root = work / "image"
        (root / "tmp").mkdir(parents=True)
        names.append(_import(root, program, f"{KUBEADM_PREFIX}/{image}"))
    root = work / "image"
    root.mkdir()
    run("tar", "-C", root, "-xf", proxy_system)
    for tool in ("iptables", "ip6tables"):
        for suffix in ("", "-save", "-restore"):
            link = root / "usr" / "sbin" / f"{tool}{suffix}"
            link.unlink(missing_ok=True)
            # Debian's alternatives were never set: this root file system ran no package script.
            link.symlink_to("xtables-nft-multi")
    names.append(_import(root, "kube-proxy", f"{KUBEADM_PREFIX}/kube-proxy:{KUBERNETES}"))
    archive = work / "system-images.tar"
    run("docker", "save", "--output", archive, *names)
    run("docker", "image", "rm", *names)
    return archive


def _import(root: Path, program: str, image: str) -> str:
    target = root / "usr" / "local" / "bin" / program
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(BIN / program, target)
    target.chmod(0o755)
    entry_point = f'ENTRYPOINT ["/usr/local/bin/{program}"]'
    tar = root.with_suffix(".tar")
    run("tar", "-C", root, "-cf", tar, ".")
    run("docker", "import", "--change", entry_point, tar, image)
    tar.unlink()
    shutil.rmtree(root)
    return image


def store_in_node(archive: Path, node: Path, work: Path) -> None:
    """Import the archive with a containerd of the host's whose root is the node's: none runs in there yet."""
    state = work / "containerd"
    state.mkdir()
    settings = state / "config.toml"
    settings.write_text(_settings(node / "var" / "lib" / "containerd", state))
    socket = state / "containerd.sock"
    with (state / "log").open("wb") as log:
        server = subprocess.Popen(
            ("containerd", "--config", settings), stdout=log, stderr=log, env=os.environ
        )
    try:
        wait_for(f"a private containerd (its log: {state}/log)", socket.exists, deadline=30, pause=0.1)
        address = ("ctr", "--address", socket, "--namespace", "k8s.io")
        run(*address, "images", "import", "--no-unpack", archive)
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(timeout=30)


def _settings(root: Path, state: Path) -> str:
    return f"""\
version = 2
root = "{root}"
state = "{state}/state"
disabled_plugins = ["io.containerd.grpc.v1.cri", "io.containerd.internal.v1.opt", "io.containerd.internal.v1.restart"]
[grpc]
  address = "{state}/containerd.sock"
"""
