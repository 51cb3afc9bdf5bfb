"""Put what demo and cluster tests need into the kind cluster: models, CRDs, the operator, namespaces."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path

from tests.demo.figures import unix
from tests.support.kubectl import CACHE, apply, delete_namespace, items, kubectl
from tests.support.models import NAMES, make

ROOT = Path(__file__).parents[2]
OPERATOR_NAMESPACE = "specdec-system"


def namespace(name: str) -> None:
    """Make a fresh namespace that enforces the restricted pod security."""
    delete_namespace(name)
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    apply(json.dumps({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}))


def operator() -> None:
    """Install the CRDs and the operator, and wait until it runs the image that was loaded last."""
    kubectl("apply", "--server-side", "--force-conflicts", "-k", str(ROOT / "crds"))
    kubectl("wait", "--for=condition=Established", "crd/specdecodeservers.specdec.dev", "--timeout=30s")
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


def remove_operator() -> None:
    """Uninstall the operator, and nothing else."""
    kubectl("delete", "-f", str(ROOT / "examples" / "operator.yaml"), "--ignore-not-found", seconds=120)


def models(folder: str = "demo") -> Path:
    """Make the tiny models in the folder that the kind node sees as /specdec-models/FOLDER."""
    path = CACHE / "models" / folder
    make(path, NAMES)
    return path


@dataclass(frozen=True)
class VerdictRecord:
    """What the operator wrote beside a revision."""

    outcome: str
    reason: str
    message: str
    at: float | None
    calls: int | None


def verdict(namespace: str, server: str, version: str) -> VerdictRecord:
    """Read the verdict on a version from its ControllerRevision."""
    for revision in items("controllerrevisions", namespace, f"specdec.dev/revision-of={server}"):
        drafter = revision["data"].get("drafter") or {}
        if drafter.get("version") == version:
            note = json.loads(revision["metadata"]["annotations"]["specdec.dev/outcome"])
            return VerdictRecord(
                note.get("outcome", ""),
                note.get("reason", ""),
                note.get("message", ""),
                unix(note.get("at", "")),
                note.get("calls"),
            )
    raise LookupError(f"no ControllerRevision of {server} holds drafter version {version}")


def step(name: str, begin: float) -> None:
    """Say that a step has ended and how long it took."""
    print(f"==> {name}  {time.monotonic() - begin:.1f} s", flush=True)
