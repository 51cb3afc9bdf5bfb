"""Root file systems of Debian, made by mmdebstrap: for the node, for kube-proxy and under the images built here."""

import os
import shutil
import ssl
from pathlib import Path

from . import fingerprint
from .places import CACHE, DEBIAN
from .steps import run, step

NODE_PACKAGES = (
    "ca-certificates",
    "conntrack",
    "containerd",
    "containernetworking-plugins",
    "curl",
    "dbus",
    "e2fsprogs",
    "ethtool",
    "iproute2",
    "iptables",
    "jq",
    "kmod",
    "libseccomp2",
    "mount",
    "nftables",
    "procps",
    "runc",
    "socat",
    "systemd",
    "util-linux",
)
PROXY_PACKAGES = ("conntrack", "iptables", "kmod", "nftables")
BASE_PACKAGES = ("ca-certificates", "libgomp1", "libnuma1", "libsndfile1", "python3", "python3-venv")
BASE_IMAGE = f"localhost/specdec-base:{DEBIAN}"
LEFT_OUT = ("/usr/share/man/*", "/usr/share/doc/*", "/usr/share/locale/*")
CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"


def node() -> Path:
    """Make the node's root file system."""
    return _make("node", "minbase", NODE_PACKAGES)


def proxy() -> Path:
    """Make kube-proxy's: the tools that it calls, and no package manager."""
    return _make("proxy", "extract", PROXY_PACKAGES)


def base_image() -> str:
    """Make the image that stands where a registry's Python image would, and return its name."""
    tar = _make("base", "minbase", BASE_PACKAGES)
    trusted = _host_certificates()
    label = fingerprint.of_files([tar.with_suffix(".made-from"), trusted])
    inspect = (
        "docker",
        "image",
        "ls",
        "--quiet",
        "--filter",
        f"label=dev.specdec.inputs={label}",
        BASE_IMAGE,
    )
    if run(*inspect).strip():
        return BASE_IMAGE
    with step(f"import {BASE_IMAGE}"):
        folder = CACHE / "base-image"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        # A host behind a proxy of its own trusts certificates that Debian does not know.
        shutil.copy(trusted, folder / "ca-certificates.crt")
        (folder / "Containerfile").write_text(_base_containerfile(label))
        run("docker", "import", tar, f"{BASE_IMAGE}-plain")
        build = ("docker", "build", "--file", folder / "Containerfile", "--tag", BASE_IMAGE, folder)
        run(*build, env={**os.environ, "DOCKER_BUILDKIT": "0"})
        shutil.rmtree(folder)
    return BASE_IMAGE


def _base_containerfile(label: str) -> str:
    return f"""\
FROM {BASE_IMAGE}-plain
COPY ca-certificates.crt {CERTIFICATES}
ENV SSL_CERT_FILE={CERTIFICATES} PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
LABEL dev.specdec.inputs={label}
"""


def _host_certificates() -> Path:
    return Path(os.environ.get("SSL_CERT_FILE") or ssl.get_default_verify_paths().cafile or CERTIFICATES)


def _make(name: str, variant: str, names: tuple[str, ...]) -> Path:
    tar = CACHE / "rootfs" / f"{name}.tar"
    stamp = tar.with_suffix(".made-from")
    wanted = fingerprint.of_files([], DEBIAN, variant, *names)
    if tar.exists() and fingerprint.is_current(stamp, wanted):
        return tar
    tar.parent.mkdir(exist_ok=True)
    with step(f"root file system of Debian for {name}"):
        excluded = [f"--dpkgopt=path-exclude={pattern}" for pattern in LEFT_OUT]
        included = f"--include={','.join(names)}"
        run("mmdebstrap", f"--variant={variant}", *excluded, included, DEBIAN, tar, deadline=1200)
    stamp.write_text(wanted)
    return tar
