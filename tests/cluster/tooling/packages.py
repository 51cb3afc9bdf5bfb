"""Debian packages: installed when missing, never twice."""

import os
import subprocess

from .steps import run, step

FOR_OWN_DAEMON = (
    "conntrack",
    "containerd",
    "ethtool",
    "gcc",
    "iproute2",
    "iptables",
    "kmod",
    "libc6-dev",
    "libdevmapper1.02.1",
    "mmdebstrap",
    "runc",
    "socat",
)
"""What dockerd calls, and what makes a root file system and a static binary."""

FOR_ENGINE = ("binutils", "gcc", "libc6-dev", "libgomp1", "libnuma1", "libsndfile1", "python3-venv")
"""What installs the CPU engine (its recipe links stand-ins for CUDA) and what it loads at run time."""


def install(names: tuple[str, ...]) -> None:
    """Install those packages of Debian that are not there yet."""
    missing = [name for name in names if not _is_installed(name)]
    if not missing:
        return
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    with step(f"Debian packages: {' '.join(missing)}"):
        run("apt-get", "update", "-qq", env=env)
        run("apt-get", "install", "-y", "-qq", "--no-install-recommends", *missing, env=env, deadline=900)


def _is_installed(name: str) -> bool:
    query = ("dpkg-query", "--show", "--showformat=${db:Status-Status}", name)
    return subprocess.run(query, capture_output=True, text=True, check=False).stdout == "installed"
