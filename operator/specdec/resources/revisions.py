"""Revisions as ControllerRevisions: what was to be served, and in one annotation what became of it."""

from __future__ import annotations

import json
from typing import Any

from specdec.api.base import GROUP
from specdec.api.v1alpha1 import SpecDecodeServer
from specdec.resources.labels import OPERATOR, REVISION_OF, owner
from specdec.rollout.world import RevisionRecord

VERDICT = f"{GROUP}/verdict"
"""Annotation with everything of a record that may change: a ControllerRevision's data may not."""

_FIXED = ("name", "number", "data", "uid")
_VERDICT_FIELDS = frozenset(RevisionRecord.__dataclass_fields__) - set(_FIXED)


def controller_revision(server: SpecDecodeServer, record: RevisionRecord) -> dict[str, Any]:
    """Manifest of one revision."""
    verdict = {key: value for key in _VERDICT_FIELDS if (value := getattr(record, key))}
    return {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": {
            "name": record.name,
            "namespace": server.namespace,
            "labels": {REVISION_OF: server.name, "app.kubernetes.io/managed-by": OPERATOR},
            "annotations": {VERDICT: json.dumps(verdict, sort_keys=True)},
            "ownerReferences": [owner(server)],
        },
        "revision": record.number,
        "data": record.data,
    }


def revision_record(manifest: dict[str, Any]) -> RevisionRecord:
    """Read a record back from its ControllerRevision."""
    said = manifest["metadata"].get("annotations", {}).get(VERDICT, "{}")
    try:
        known = _verdict(json.loads(said))
    except (ValueError, TypeError, AttributeError):
        known = {}  # broken by someone's hand: the drafter is judged again
    return RevisionRecord(
        name=manifest["metadata"]["name"],
        number=int(manifest["revision"]),
        data=dict(manifest["data"]),
        uid=str(manifest["metadata"].get("uid", "")),
        **known,
    )


def _verdict(said: dict[str, Any]) -> dict[str, Any]:
    return {
        key: int(value) if key in _NUMBERS else str(value)
        for key, value in said.items()
        if key in _VERDICT_FIELDS
    }


_NUMBERS = frozenset({"requests", "calls"})
