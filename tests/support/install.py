"""Put what demo and cluster tests need into the kind cluster: models, CRDs, the operator, namespaces."""

from __future__ import annotations

import json
import time
from pathlib import Path

from tests.support.kubectl import CACHE, apply, delete_namespace, items, kubectl
from tests.support.models import NAMES, make

from specdec.resources.labels import REVISION_OF
from specdec.resources.revisions import revision_record
from specdec.rollout.world import RevisionRecord

ROOT = Path(__file__).parents[2]
OPERATOR_NAMESPACE = "specdec-system"


def namespace(name: str) -> None:
    """Make a fresh namespace that enforces the restricted pod security."""
    delete_namespace(name)
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    apply(json.dumps({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}))


def crds() -> None:
    """Install the CRDs."""
    kubectl("apply", "--server-side", "--force-conflicts", "-k", str(ROOT / "crds"))
    kubectl("wait", "--for=condition=Established", "crd/specdecodeservers.specdec.dev", "--timeout=30s")


def operator() -> None:
    """Install the CRDs and the operator, and wait until it runs the image that was loaded last."""
    crds()
    kubectl("apply", "-f", str(ROOT / "examples" / "operator.yaml"))
    kubectl("rollout", "restart", "deployment/specdec-operator", "-n", OPERATOR_NAMESPACE)
    kubectl(
        "rollout",
        "status",
        "deployment/specdec-operator",
        "-n",
        OPERATOR_NAMESPACE,
        "--timeout=120s",
        seconds=130,
    )


def scale_operator(replicas: int) -> None:
    """Start or stop the operator and wait until it is so."""
    kubectl("scale", "deployment/specdec-operator", f"--replicas={replicas}", "-n", OPERATOR_NAMESPACE)
    kubectl("rollout", "status", "deployment/specdec-operator", "-n", OPERATOR_NAMESPACE, "--timeout=60s")
    if not replicas:
        kubectl(
            "wait", "--for=delete", "pod", "-l", "app.kubernetes.io/name=specdec-operator",
            "-n", OPERATOR_NAMESPACE, "--timeout=60s", seconds=70,
        )  # fmt: skip


def remove_operator() -> None:
    """Uninstall the operator, and nothing else."""
    kubectl("delete", "-f", str(ROOT / "examples" / "operator.yaml"), "--ignore-not-found", seconds=120)


def models(folder: str = "demo") -> Path:
    """Make the tiny models in the folder that the kind node sees as /specdec-models/FOLDER."""
    path = CACHE / "models" / folder
    make(path, NAMES)
    return path


def verdict(namespace: str, server: str, version: str) -> RevisionRecord:
    """Read what the operator wrote beside the revision of a drafter version."""
    for found in items("controllerrevisions", namespace, f"{REVISION_OF}={server}"):
        record = revision_record(found)
        if (record.data.get("drafter") or {}).get("version") == version:
            return record
    raise LookupError(f"no ControllerRevision of {server} holds drafter version {version}")


def step(name: str, begin: float) -> None:
    """Say that a step has ended and how long it took."""
    print(f"==> {name}  {time.monotonic() - begin:.1f} s", flush=True)
