"""Put what demo and cluster tests need into the kind cluster: models, CRDs, the operator, namespaces."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.support.chart import helm
from tests.support.kubectl import CACHE, KUBECONFIG, apply, delete_namespace, items, kubectl
from tests.support.models import NAMES, kimi, make, tower
from tests.support.nodes import audit
from tests.support.paths import ROOT

from specdec.resources.labels import REVISION_OF
from specdec.resources.revisions import revision_record
from specdec.rollout.world import RevisionRecord

OPERATOR_NAMESPACE = "specdec-system"
RELEASE = "specdec-operator"
DEPLOYMENT = f"deployment/{RELEASE}"
ACCOUNT = f"system:serviceaccount:{OPERATOR_NAMESPACE}:{RELEASE}"


def command(chart: str = "charts/specdec-operator") -> tuple[str, ...]:
    """Give Helm's arguments that install a chart or upgrade to it; the last two take over what `kubectl apply` put there."""
    return (
        *("upgrade", "--install", RELEASE, chart, "--namespace", OPERATOR_NAMESPACE, "--create-namespace"),
        *("--values", "examples/operator-values.yaml", "--take-ownership", "--force-conflicts"),
    )


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
    """Install the operator, or upgrade it, and wait until it runs the image that was loaded last."""
    begun = datetime.now(UTC).replace(microsecond=0)
    helm(*command(), f"--kubeconfig={KUBECONFIG}")
    pods = items("pods", OPERATOR_NAMESPACE, f"app.kubernetes.io/name={RELEASE}")
    if any(datetime.fromisoformat(pod["metadata"]["creationTimestamp"]) < begun for pod in pods):
        kubectl("rollout", "restart", DEPLOYMENT, "-n", OPERATOR_NAMESPACE)
    await_operator()


def await_operator() -> None:
    """Wait until the operator's newest pod runs, and no other."""
    where = ("-n", OPERATOR_NAMESPACE, "--timeout=120s")
    kubectl("rollout", "status", DEPLOYMENT, *where, seconds=130)


def scale_operator(replicas: int) -> None:
    """Start or stop the operator and wait until it is so."""
    kubectl("scale", "deployment/specdec-operator", f"--replicas={replicas}", "-n", OPERATOR_NAMESPACE)
    kubectl("rollout", "status", "deployment/specdec-operator", "-n", OPERATOR_NAMESPACE, "--timeout=60s")
    if not replicas:
        kubectl(
            "wait", "--for=delete", "pod", "-l", "app.kubernetes.io/name=specdec-operator",
            "-n", OPERATOR_NAMESPACE, "--timeout=60s", seconds=70,
        )  # fmt: skip


def pod() -> dict[str, Any]:
    """Fetch the operator's one pod."""
    (found,) = items("pods", OPERATOR_NAMESPACE, f"app.kubernetes.io/name={RELEASE}")
    return found


def writes(since: datetime) -> list[dict[str, Any]]:
    """Collect the operator's writes since a moment, but for its Lease: verb, object and time of each."""
    return [
        {key: entry["objectRef"].get(key) for key in ("resource", "subresource", "name")}
        | {"verb": entry["verb"], "at": at}
        for entry in audit()
        if entry["user"]["username"] == ACCOUNT
        and (at := datetime.fromisoformat(entry["requestReceivedTimestamp"])) > since
        and entry["objectRef"]["resource"] != "leases"
    ]


def remove_operator() -> None:
    """Uninstall the operator, and nothing else."""
    where = (f"--namespace={OPERATOR_NAMESPACE}", f"--kubeconfig={KUBECONFIG}")
    helm("uninstall", RELEASE, *where, "--ignore-not-found", "--wait")


def models(folder: str = "demo") -> Path:
    """Make the tiny models in the folder that the kind node sees as /specdec-models/FOLDER."""
    path = CACHE / "models" / folder
    make(path, (name for name in NAMES if name != "kimi"))
    kimi(path / "kimi", tower=tower())  # it sees, as Kimi-K2.5 does: the warm-up's picture is answered
    return path


def verdict(namespace: str, server: str, version: str) -> RevisionRecord:
    """Read what the operator wrote beside the revision of a drafter version."""
    for found in items("controllerrevisions", namespace, f"{REVISION_OF}={server}"):
        record = revision_record(found)
        if (record.data.get("drafter") or {}).get("version") == version:
            return record
    raise LookupError(f"no ControllerRevision of {server} holds drafter version {version}")
