"""How pods are reached and how many may be missing: Services and the disruption budget."""

from __future__ import annotations

from typing import Any

from specdec.api.v1alpha1 import SpecDecodeServer
from specdec.engine.protocol import AGENT_PORT, ENGINE_PORT
from specdec.resources.labels import headless_name, metadata, selector

_HTTP = {"name": "http", "port": ENGINE_PORT, "protocol": "TCP", "targetPort": "http"}
_AGENT = {"name": "agent", "port": AGENT_PORT, "protocol": "TCP", "targetPort": "agent"}


def service(server: SpecDecodeServer) -> dict[str, Any]:
    """Service for users: ready pods only."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(server, server.name),
        "spec": {"type": "ClusterIP", "selector": selector(server), "ports": [_HTTP]},
    }


def headless_service(server: SpecDecodeServer) -> dict[str, Any]:
    """Service that gives every pod a name, ready or not: its agent answers from the first second."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(server, headless_name(server.name)),
        "spec": {
            "type": "ClusterIP",
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": selector(server),
            "ports": [_HTTP, _AGENT],
        },
    }


def disruption_budget(server: SpecDecodeServer) -> dict[str, Any]:
    """At most one pod may be evicted at a time; a single replica can still be drained."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": metadata(server, server.name),
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": selector(server)}},
    }
