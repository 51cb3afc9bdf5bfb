"""Argo Rollouts' controller and a Prometheus as processes of this machine, beside the kind cluster.

Argo Rollouts is built from its Go module.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.cluster.tooling.steps import run
from tests.support.kubectl import KUBECONFIG, kubectl
from tests.support.ports import free_ports
from tests.support.prometheus import Job, Prometheus, proxied

from bench.argo.rollout import NAME, PORT
from bench.beside import process
from bench.built import built

MODULE = Path(__file__).parent
SCRAPE_SECONDS = 2


def crds() -> None:
    """Install Argo Rollouts' CRDs out of its module."""
    found = run("go", "list", "-m", "-f", "{{.Dir}}", "github.com/argoproj/argo-rollouts", cwd=MODULE).strip()
    kubectl("apply", "--server-side", "-k", f"{found}/manifests/crds")
    kinds = ("rollouts", "analysisruns", "analysistemplates")
    names = [f"crd/{kind}.argoproj.io" for kind in kinds]
    kubectl("wait", "--for=condition=Established", *names, "--timeout=30s")


@contextlib.contextmanager
def running(namespace: str, folder: Path) -> Iterator[Prometheus]:
    """Run both for one namespace, and end them afterwards."""
    metrics, health = free_ports(2)
    argo = [
        built(MODULE, "rollouts-controller"),
        f"--kubeconfig={KUBECONFIG}",
        "--leader-elect=false",
        f"--namespace={namespace}",
        "--namespaced",
        f"--metricsport={metrics}",
        f"--healthzPort={health}",
    ]
    with (
        Prometheus(folder, [engines(namespace)], seconds=SCRAPE_SECONDS) as prometheus,
        process(argo, folder / "argo.log"),
    ):
        yield prometheus


def engines(namespace: str) -> Job:
    """Scrape the engines that run, with the hash of their template."""

    def places(pod: dict[str, Any]) -> list[dict[str, Any]]:
        metadata = pod["metadata"]
        labels = metadata.get("labels", {})
        if metadata["namespace"] != namespace or labels.get("app") != NAME:
            return []
        page = {"__metrics_path__": proxied(pod, PORT, "/metrics"), "pod": metadata["name"]}
        return [page | {"hash": labels.get("rollouts-pod-template-hash", "")}]

    return Job("engine", places)
