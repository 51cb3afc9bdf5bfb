"""Whether an apply would change anything: at rest the operator writes nothing.

An apply is superfluous if the live object has every value that we want, and if we own no field that we
no longer want (the API server keeps our fields in `managedFields`).
"""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

from specdec.resources.labels import OPERATOR

_SUFFIXES = {
    "m": Decimal("0.001"), "": Decimal(1), "k": Decimal(10**3), "M": Decimal(10**6), "G": Decimal(10**9),
    "T": Decimal(10**12), "Ki": Decimal(2**10), "Mi": Decimal(2**20), "Gi": Decimal(2**30), "Ti": Decimal(2**40),
}  # fmt: skip


def unchanged(live: dict[str, Any] | None, wanted: dict[str, Any]) -> bool:
    """Say whether applying `wanted` would leave `live` as it is."""
    if live is None:
        return False
    return has(live, wanted) and all(within(tree, wanted) for tree in _ours(live))


def _ours(live: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        entry.get("fieldsV1", {})
        for entry in live["metadata"].get("managedFields", ())
        if entry.get("manager") == OPERATOR
        and entry.get("operation") == "Apply"
        and "subresource" not in entry
    ]


def has(live: Any, wanted: Any) -> bool:
    """Say whether the live value has everything that is wanted; defaults may stand beside it."""
    if isinstance(wanted, dict):
        # An empty map that is wanted may be absent: the API server drops some.
        return isinstance(live, dict) and all(
            has(live.get(key), value) if key in live else value in ({}, [], None, "")
            for key, value in wanted.items()
        )
    if isinstance(wanted, list):
        return (
            isinstance(live, list)
            and len(live) == len(wanted)
            and all(has(*pair) for pair in zip(live, wanted, strict=True))
        )
    return bool(live == wanted) or _same_quantity(live, wanted)


def _same_quantity(one: Any, other: Any) -> bool:
    """Compare "0.5" and "500m" as the API server does when it rewrites quantities."""
    if not isinstance(one, str) or not isinstance(other, str):
        return False
    left, right = _quantity(one), _quantity(other)
    return left is not None and left == right


def _quantity(text: str) -> Decimal | None:
    number = text.rstrip("mkMGTi")
    factor = _SUFFIXES.get(text[len(number) :])
    if factor is None or not number.replace(".", "", 1).isdigit():
        return None
    return Decimal(number) * factor


def within(tree: dict[str, Any], wanted: Any) -> bool:
    """Say whether every owned field of a `fieldsV1` tree is still wanted."""
    for key, below in tree.items():
        if key == ".":
            continue
        kind, _, name = key.partition(":")
        found, value = _step(kind, name, wanted)
        if not found or not within(below, value):
            return False
    return True


def _step(kind: str, name: str, wanted: Any) -> tuple[bool, Any]:
    """Follow one key of a tree: a field, an item of a keyed list, a value of a set."""
    match kind:
        case "f" if isinstance(wanted, dict):
            return name in wanted, wanted.get(name)
        case "k" if isinstance(wanted, list):
            keys = json.loads(name)
            items = [item for item in wanted if all(item.get(key) == value for key, value in keys.items())]
            return bool(items), items[0] if items else None
        case "v" if isinstance(wanted, list):
            return json.loads(name) in wanted, None
        case _:
            return False, None
