"""Where things lie on this machine, and which versions they have."""

import os
from pathlib import Path

from tests.support.paths import CACHE

REPOSITORY = Path(__file__).resolve().parents[3]
NODE_FILES = REPOSITORY / "tests" / "cluster" / "node"
IMAGE_FILES = REPOSITORY / "images"
PREVIOUS = REPOSITORY / "tests" / "data" / "previous"
"""Chart and package of the release before."""

BIN = CACHE / "bin"
"""kubectl, kind, crictl (helm, prometheus and promtool, where asked for), and the parts of the node image."""
DOCKER = CACHE / "docker-engine"
"""Debian's Docker, unpacked; its client serves where the machine has none."""
MODELS = CACHE / "models"
"""Seen by the node as /specdec-models: a hostPath PersistentVolume serves tiny models from it."""
KUBECONFIG = CACHE / "kubeconfig"
ENGINE_VENV = CACHE / "engine"
"""The CPU engine for tests that need no cluster."""

CLUSTER = "specdec"
NODE = f"{CLUSTER}-control-plane"
GPUS_PER_NODE = 8

KUBERNETES = "v1.34.4"
"""The newest minor version whose kubelet still runs on cgroup v1."""
CRICTL = "v1.34.0"
PAUSE = "3.10.1"
ETCD = "3.6.5-0"
COREDNS = "v1.12.1"
DEBIAN = "bookworm"
NODE_IMAGE = f"localhost/kind-node:{KUBERNETES}"


def use_cache() -> None:
    """Create the cache's folders and put its programs first on the search path of everything started from here."""
    for folder in (CACHE, BIN, MODELS):
        folder.mkdir(parents=True, exist_ok=True)
    os.environ["PATH"] = os.pathsep.join((str(BIN), os.environ["PATH"], f"{DOCKER}/usr/bin"))
    os.environ["KUBECONFIG"] = str(KUBECONFIG)
