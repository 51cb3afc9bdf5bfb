"""Names of all metrics that operator and engine plugin declare, as rules and dashboards write them."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from unittest import mock

import prometheus_client
import yaml
from prometheus_client.metrics import MetricWrapperBase
from tests.support.chart import CHART

from specdec.controller import metrics
from specdec.engine.plugin import metrics as plugin_metrics

Declared = MetricWrapperBase | metrics.ServerGauge
RULES = CHART / "files" / "rules" / "specdec.yaml"
DASHBOARDS = sorted((CHART / "files" / "dashboards").glob("*.json"))
_NAME = re.compile(r"\bspecdec[_:][a-zA-Z0-9_:]*")
_ENDINGS = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count")}


def operator_metrics() -> list[Declared]:
    """What the operator declares."""
    return [found for found in vars(metrics).values() if isinstance(found, Declared)]


def plugin_declared() -> list[MetricWrapperBase]:
    """What the plugin declares, in a registry of its own."""
    registry = prometheus_client.CollectorRegistry()
    apart = functools.partial(prometheus_client.Counter, registry=registry)
    with mock.patch.object(prometheus_client, "Counter", apart):
        return [
            found
            for found in vars(plugin_metrics.Exposition()).values()
            if isinstance(found, MetricWrapperBase)
        ]


def series(declared: Iterable[Declared]) -> set[str]:
    """Names of the series of metrics."""
    families = [family for metric in declared for family in metric.describe()]
    return {family.name + ending for family in families for ending in _ENDINGS.get(family.type, ("",))}


def rules(path: Path = RULES) -> list[dict[str, Any]]:
    """Recording and alerting rules."""
    return [rule for group in yaml.safe_load(path.read_text())["groups"] for rule in group["rules"]]


def recorded() -> set[str]:
    """Names of what rules record."""
    return {rule["record"] for rule in rules() if "record" in rule}


def named(expression: str) -> set[str]:
    """Our metrics that an expression reads."""
    return set(_NAME.findall(expression))


def expressions(node: Any) -> list[str]:
    """Every query of a dashboard, those of annotations and variables included."""
    if isinstance(node, list):
        return [found for child in node for found in expressions(child)]
    if not isinstance(node, dict):
        return []
    own = [value for key, value in node.items() if key in ("expr", "definition") and isinstance(value, str)]
    return own + [found for child in node.values() for found in expressions(child)]
