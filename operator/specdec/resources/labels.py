"""Names, labels and owners: how the parts of one server find each other."""

from __future__ import annotations

from typing import Any

from specdec.api.base import API_VERSION, GROUP, KIND
from specdec.api.v1alpha1 import SpecDecodeServer

OPERATOR = "specdec-operator"
"""Field manager of every write, and `app.kubernetes.io/managed-by`."""

SERVER = f"{GROUP}/server"
"""Label of every child: the server's name. The operator's watches select on its presence."""

RESTART_HASH = f"{GROUP}/restart-hash"
"""Label of the pods: the hash of the user's inputs that a pod was made from."""

REVISION = f"{GROUP}/revision"
"""Label of a preflight's Job: the revision that it judges."""

PREFLIGHT = "preflight"

REVISION_OF = f"{GROUP}/revision-of"
"""Label of our ControllerRevisions. The StatefulSet adopts revisions that its selector fits, so theirs differ."""

RESERVED = (GROUP, "kubernetes.io", "k8s.io")
"""Domains whose labels, and those of their subdomains, users can't set on pods; `x-k8s.io`, as of Kueue, is another one."""


def config_map_name(name: str) -> str:
    """Name of the launch plan's ConfigMap."""
    return f"{name}-engine"


def headless_name(name: str) -> str:
    """Name of the Service that gives pods their DNS names."""
    return f"{name}-engines"


def selector(server: SpecDecodeServer) -> dict[str, str]:
    """Labels that select the server's pods; a StatefulSet's selector never changes."""
    return {"app.kubernetes.io/name": "specdec-engine", "app.kubernetes.io/instance": server.name}


def labels(server: SpecDecodeServer) -> dict[str, str]:
    """Labels of everything that belongs to a server."""
    return {
        **selector(server),
        "app.kubernetes.io/component": "engine",
        "app.kubernetes.io/part-of": "specdec",
        "app.kubernetes.io/managed-by": OPERATOR,
        SERVER: server.name,
    }


def preflight_labels(server: SpecDecodeServer) -> dict[str, str]:
    """Labels of a preflight's Job and its pod: no Service, budget or workload may take it for an engine."""
    return {
        **labels(server),
        "app.kubernetes.io/name": "specdec-preflight",
        "app.kubernetes.io/component": PREFLIGHT,
    }


def is_engine(pod: dict[str, Any]) -> bool:
    """Whether a pod that belongs to a server is one of its engines."""
    return bool(pod["metadata"].get("labels", {}).get("app.kubernetes.io/component") != PREFLIGHT)


def user_labels(server: SpecDecodeServer) -> dict[str, str]:
    """Pod labels of the user, without those of reserved domains."""
    return {key: value for key, value in server.spec.engine.pod_labels.items() if not _reserved(key)}


def _reserved(key: str) -> bool:
    prefix, slash, _ = key.partition("/")
    return bool(slash) and any(f".{prefix}".endswith(f".{domain}") for domain in RESERVED)


def owner(server: SpecDecodeServer) -> dict[str, Any]:
    """Owner reference: whatever is deleted with the server needs no operator for it."""
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "name": server.name,
        "uid": str(server.metadata["uid"]),
        "controller": True,
    }


def metadata(server: SpecDecodeServer, name: str) -> dict[str, Any]:
    """Metadata of a child."""
    return {
        "name": name,
        "namespace": server.namespace,
        "labels": labels(server),
        "ownerReferences": [owner(server)],
    }
