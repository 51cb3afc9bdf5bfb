"""Values: a wrong one is refused by its name, before anything reaches a cluster."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from tests.support.chart import CHART, EXAMPLE_VALUES, HelmError, render

FREE = {"affinity", "resources.limits", "resources.requests"}
"""Parts whose content is Kubernetes' own."""

WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "an unknown key": ({"replicaCount": 2}, "replicaCount"),
    "an unknown key below": ({"rbac.clusterWide": True}, "clusterWide"),
    "replicas in words": ({"replicas": "two"}, "/replicas"),
    "too many replicas": ({"replicas": 4}, "/replicas"),
    "negative replicas": ({"replicas": -1}, "/replicas"),
    "no workers": ({"workers": 0}, "/workers"),
    "a namespace with a capital": ({"namespaces": ["Team"]}, "/namespaces/0"),
    "a namespace with a comma": ({"namespaces": ["a,b"]}, "/namespaces/0"),
    "one namespace twice": ({"namespaces": ["a", "a"]}, "/namespaces"),
    "no image": ({"image.repository": ""}, "/image/repository"),
    "an image with a space": ({"image.repository": "a b"}, "/image/repository"),
    "a short digest": ({"image.digest": "sha256:12"}, "/image/digest"),
    "no engine image": ({"engine.defaultImage": ""}, "/engine/defaultImage"),
    "a prefix that ends the quoting": ({"engine.imagePrefixes": ["x' || true || '"]}, "/engine/imagePrefixes/0"),
    "an empty prefix, which is every image": ({"engine.imagePrefixes": [""]}, "/engine/imagePrefixes/0"),
    "a log format": ({"logFormat": "xml"}, "/logFormat"),
    "a log level": ({"logLevel": "LOUD"}, "/logLevel"),
    "a switch in words": ({"crds.keep": "yes"}, "/crds/keep"),
    "an interval without a unit": ({"metrics.podMonitor.interval": "15"}, "/metrics/podMonitor/interval"),
    "a port out of range": ({"networkPolicy.apiServerPorts": [70000]}, "/networkPolicy/apiServerPorts/0"),
    "an address without its width": ({"networkPolicy.apiServerCIDRs": ["10.0.0.1"]}, "/networkPolicy/apiServerCIDRs/0"),
    "a toleration's effect": ({"tolerations": [{"effect": "Never"}]}, "/tolerations/0/effect"),
    "a priority of the system's": ({"priorityClass.value": 2000000000}, "/priorityClass/value"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_value_is_refused_by_its_name(case: str):
    value, name = WRONG[case]
    with pytest.raises(HelmError) as refusal:
        render(EXAMPLE_VALUES, value)
    assert name in str(refusal.value)


def test_an_old_kubernetes_is_refused_in_one_sentence():
    with pytest.raises(
        HelmError, match=r"requires kubeVersion: >=1\.30\.0-0 which is incompatible with Kubernetes v1\.29\.0"
    ):
        render(EXAMPLE_VALUES, kubernetes="1.29.0")


def paths(tree: dict[str, Any], path: str = "") -> Iterator[str]:
    for name, child in tree.items():
        here = f"{path}.{name}".removeprefix(".")
        yield here
        if isinstance(child, dict) and here not in FREE:
            yield from paths(child, here)


def described(schema: dict[str, Any], path: str = "") -> Iterator[str]:
    for name, child in schema.get("properties", {}).items():
        here = f"{path}.{name}".removeprefix(".")
        yield here
        if here not in FREE:
            yield from described(child, here)


def test_values_and_schema_have_the_same_keys():
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    schema = json.loads((CHART / "values.schema.json").read_text())
    free = {"metrics.dashboard.labels.grafana_dashboard", "global"}
    assert set(paths(values)) ^ set(described(schema)) == free


def test_nothing_unknown_passes_anywhere_in_the_schema():
    def open_ends(node: dict[str, Any], path: str) -> Iterator[str]:
        if "properties" in node and node.get("additionalProperties") is not False:
            yield path
        for name, child in node.get("properties", {}).items():
            yield from open_ends(child, f"{path}.{name}")

    schema = json.loads((CHART / "values.schema.json").read_text())
    assert list(open_ends(schema, "")) == []
