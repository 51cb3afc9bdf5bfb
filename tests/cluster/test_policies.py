"""What the chart has for networks, disruptions and Prometheus, on the real API server: each field is one that it knows.

The Prometheus operator's own definitions are made for this and removed again; the rest is a dry run, so that nothing
here touches the cluster's installation.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.cluster.tooling.gotools import module_folder
from tests.support.chart import EXAMPLE_VALUES, of_kind, render
from tests.support.kubectl import KubectlError, apply, kubectl

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(120)]

MODULE = "github.com/prometheus-operator/prometheus-operator"
DEFINED = ("PodMonitor", "ServiceMonitor", "PrometheusRule")
LABELS = {"kubernetes.io/metadata.name": "monitoring"}
VALUES: dict[str, Any] = {
    "namespaces": ["default"],
    "replicas": 2,
    "networkPolicy": {
        "enabled": True,
        "metricsFrom": LABELS,
        "usersFrom": LABELS,
        "apiServerCIDRs": ["10.96.0.1/32"],
    },
    "metrics.podMonitor": {"enabled": True, "labels": {"release": "kps"}},
    "metrics.prometheusRule": {"enabled": True},
}
KINDS = {
    "NetworkPolicy": 2,
    "PodDisruptionBudget": 1,
    "PodMonitor": 2,
    "PrometheusRule": 1,
    "ServiceMonitor": 0,
}
"""How many of each the values ask for; a ServiceMonitor stands in for one of the PodMonitors."""
BY_SERVICE = {**KINDS, "PodMonitor": 1, "ServiceMonitor": 1}


@pytest.fixture(scope="module", autouse=True)
def definitions() -> Iterator[None]:
    """What the Prometheus operator's users have: its CRDs, as it ships them."""
    shipped = Path(module_folder("prometheus-operator", MODULE)) / "example" / "prometheus-operator-crd"
    paths = [shipped / f"monitoring.coreos.com_{kind.lower()}s.yaml" for kind in DEFINED]
    files = [f"--filename={path}" for path in paths]
    try:
        # They are too large for the annotation of a plain apply.
        kubectl("apply", "--server-side", *files)
        kubectl("wait", "--for=condition=Established", *files, "--timeout=30s")
        yield
    finally:
        kubectl("delete", *files, "--ignore-not-found", "--timeout=60s", seconds=70)


def take(*manifests: dict[str, Any]) -> None:
    """Let the API server take manifests without storing them; it refuses a field that it does not know."""
    how = ("--server-side", "--dry-run=server", "--validate=strict", "--force-conflicts")
    apply(json.dumps({"apiVersion": "v1", "kind": "List", "items": manifests}), *how)


@pytest.mark.parametrize(
    ("more", "kinds"),
    [({}, KINDS), ({"metrics.serviceMonitor": {"enabled": True}}, BY_SERVICE)],
    ids=["pods", "service"],
)
def test_all_that_is_rendered_for_networks_disruptions_and_prometheus_is_taken(
    more: dict[str, Any], kinds: dict[str, int]
):
    made = render(EXAMPLE_VALUES, {**VALUES, **more})
    shown = [item for kind in kinds for item in of_kind(made, kind)]
    assert {kind: len(of_kind(shown, kind)) for kind in kinds} == kinds
    take(*shown)


@pytest.mark.parametrize("kind", [kind for kind, count in KINDS.items() if count])
def test_a_field_that_it_does_not_know_is_refused_by_name(kind: str):
    manifest = of_kind(render(EXAMPLE_VALUES, VALUES), kind)[0]
    manifest["spec"]["podSelectors"] = {}
    with pytest.raises(KubectlError, match="podSelectors"):
        take(manifest)
