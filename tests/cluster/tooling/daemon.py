"""The Docker daemon: the machine's own where it can pull images, else one started here.

Ours keeps its data, socket and subnets apart from any other Docker of the machine, and comes from Debian's
package unpacked into the cache: installing it would start a service.
"""

import json
import os
import shutil
import signal
import subprocess
from pathlib import Path

from . import firewall, packages
from .places import CACHE, DOCKER, NODE_FILES
from .steps import run, step, succeeds, wait_for

PUBLIC_BASE = "python:3.11-slim-bookworm"
DATA = CACHE / "docker"
RUN = CACHE / "docker-run"
CONFIG = CACHE / "docker-daemon.json"
PID_FILE = CACHE / "docker.pid"
LOG = CACHE / "docker.log"
SOCKET = f"unix://{CACHE}/docker.sock"
CHOICE = CACHE / "docker-choice"
"""Which daemon the cluster is on, as long as there is one: "own" or "machine"."""
RUNC = CACHE / "docker-runc"
BRIDGE_ADDRESS = "172.30.0.1/24"
NETWORKS = {"base": "172.31.0.0/16", "size": 24}


def choose() -> bool:
    """Settle once which daemon is used, until :func:`forget`; start ours if it is that one, and tell whether it is the machine's.

    The machine's is used with the stock images of a registry, which may be out of reach for a while: to choose again
    would leave the cluster on one daemon and put the images onto the other.
    """
    chosen = choice()
    if chosen is None:
        pulls = os.environ.get("DOCKER_HOST") != SOCKET and _pulls_images()
        chosen = "machine" if pulls else "own"
        CHOICE.write_text(chosen)
    if chosen == "machine":
        return True
    start()
    return False


def choice() -> str | None:
    """Read which daemon was chosen; None before that."""
    return CHOICE.read_text() if CHOICE.exists() else None


def is_chosen() -> bool:
    """Tell whether ours is the daemon to use; before a choice, whether it has a socket."""
    chosen = choice()
    return chosen == "own" if chosen else Path(SOCKET.removeprefix("unix://")).exists()


def forget() -> None:
    """Let the next cluster choose again."""
    CHOICE.unlink(missing_ok=True)


def _pulls_images() -> bool:
    has_daemon = succeeds("docker", "info", deadline=20)
    return has_daemon and succeeds("docker", "manifest", "inspect", PUBLIC_BASE, deadline=30)


def use_own() -> None:
    """Point every docker command from here on at our daemon."""
    os.environ["DOCKER_HOST"] = SOCKET


def start() -> None:
    """Start our daemon unless it answers."""
    use_own()
    if is_running():
        return
    packages.install(packages.FOR_OWN_DAEMON)
    _unpack()
    with step("start the Docker daemon"):
        _forget_dead(PID_FILE, "dockerd")
        _forget_dead(RUN / "containerd" / "containerd.pid", "containerd")
        _configure()
        _launch()
        wait_for(f"the Docker daemon to answer (its log: {LOG})", is_running, deadline=90, pause=0.2)


def is_running() -> bool:
    """Tell whether our daemon answers."""
    return Path(SOCKET.removeprefix("unix://")).exists() and succeeds(
        "docker", "--host", SOCKET, "info", deadline=20
    )


def stop() -> None:
    """Stop our daemon and take away what it left in the firewall and among the links."""
    with step("stop the Docker daemon"):
        # kind's network stays for its next cluster, and its bridge would outlive the daemon.
        succeeds("docker", "network", "rm", "kind")
        pid = _living(PID_FILE, "dockerd")
        if pid:
            os.kill(pid, signal.SIGTERM)
            wait_for(
                f"dockerd (pid {pid}) to end",
                lambda: not _living(PID_FILE, "dockerd"),
                deadline=90,
                pause=0.2,
            )
        _unmount_leftovers()
        firewall.forget_docker(BRIDGE_ADDRESS)


def _unmount_leftovers() -> None:
    """Release what the daemon mounted and forgot, its network namespaces above all: it would hold the folder."""
    mounted = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
    for path in reversed(mounted):
        if Path(path).is_relative_to(RUN) or Path(path).is_relative_to(DATA):
            run("umount", path)


def _unpack() -> None:
    if (DOCKER / "usr" / "sbin" / "dockerd").exists():
        return
    with step("unpack Debian's Docker"):
        folder = CACHE / "docker-package"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        # apt fetches as its own user where it may write, and warns where it may not: either is fine.
        if not succeeds("apt-get", "download", "-qq", "--print-uris", "docker.io"):
            run("apt-get", "update", "-qq")
        run("apt-get", "download", "-qq", "docker.io", cwd=folder)
        (package,) = folder.glob("*.deb")
        run("dpkg", "-x", package, DOCKER)
        shutil.rmtree(folder)


def _configure() -> None:
    shutil.copy(NODE_FILES / "runc-without-sys-resource", RUNC)
    settings = {
        "data-root": str(DATA),
        "exec-root": str(RUN),
        "pidfile": str(PID_FILE),
        "hosts": [SOCKET],
        "bip": BRIDGE_ADDRESS,
        "default-address-pools": [NETWORKS],
        "storage-driver": "overlay2",
        "oom-score-adjust": 0,  # below zero takes CAP_SYS_RESOURCE
        "exec-opts": ["native.cgroupdriver=cgroupfs"],
        "runtimes": {"without-sys-resource": {"path": str(RUNC)}},
        "default-runtime": "without-sys-resource",
    }
    CONFIG.write_text(json.dumps(settings, indent=1))
    forwarding = Path("/proc/sys/net/ipv4/ip_forward")
    if forwarding.read_text().strip() != "1":
        # A daemon that has to set this itself also sets the policy of the FORWARD chain to DROP.
        forwarding.write_text("1")


def _launch() -> None:
    command = [f"{DOCKER}/usr/sbin/dockerd", "--config-file", str(CONFIG)]
    env = {**os.environ, "PATH": f"{DOCKER}/usr/sbin{os.pathsep}{os.environ['PATH']}"}
    with LOG.open("wb") as log:
        # Its own session: it outlives the command that started it.
        subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=env, start_new_session=True
        )


def _living(pid_file: Path, program: str) -> int | None:
    """Read the pid of a process of ours that is alive: the number alone may be another process's by now."""
    try:
        pid = int(pid_file.read_text())
        words = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    except (OSError, ValueError):
        return None
    return pid if Path(words[0]).name == program and str(CACHE) in " ".join(words) else None


def _forget_dead(pid_file: Path, program: str) -> None:
    """Remove a pid file whose process is gone: dockerd refuses to start while any process has that number."""
    if not _living(pid_file, program):
        pid_file.unlink(missing_ok=True)


def has_data() -> bool:
    """Tell whether a daemon of ours has ever run with this cache."""
    return DATA.exists()
