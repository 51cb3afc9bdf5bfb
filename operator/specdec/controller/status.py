"""When and how a status is written: on what people wait for at once, on shown numbers once a minute.

A status that repeats every measurement would wake every watcher of the cluster several times a second.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from specdec.api.base import API_VERSION, KIND
from specdec.api.v1alpha1 import SpecDecodeServer, SpecDecodeServerStatus
from specdec.controller.clock import Clock
from specdec.controller.kube import Kube
from specdec.controller.store import Store
from specdec.controller.text import fit

NUMBER_SECONDS = 60.0
"""Numbers alone cause a write this often at most."""
NUMBER_STEP = 0.1
"""And only if one of them moved by this much."""
TEXT_LENGTH = 4096
"""The schema's bound of a string."""

_NUMBERS = ("acceptLength", "acceptRate", "perPosition")
_FIGURES = re.compile(r"\d+([.,]\d+)*")

Rendered = dict[str, Any]


def rendered(status: SpecDecodeServerStatus) -> Rendered:
    """Render a status for the API server: nothing empty but in conditions, clipped, no control characters."""
    told = status.model_dump(mode="json", by_alias=True, exclude_none=True, exclude_defaults=True)
    whole = {
        "replicas": status.replicas,
        "readyReplicas": status.ready_replicas,
        "conditions": [condition.model_dump(mode="json", by_alias=True) for condition in status.conditions],
    }
    clean: Rendered = _clean({**told, **whole})
    return clean


def _clean(value: Any) -> Any:
    match value:
        case str():
            return fit(value, TEXT_LENGTH)
        case list():
            return [_clean(item) for item in value]
        case dict():
            return {key: _clean(item) for key, item in value.items()}
        case _:
            return value


def essence(status: Rendered) -> Rendered:
    """Keep what is worth a write at once: everything but figures, and sentences without theirs."""
    acceptance = status.get("acceptance") or {}
    conditions = [
        {
            **{key: value for key, value in condition.items() if key != "lastTransitionTime"},
            "message": _FIGURES.sub("#", condition.get("message", "")),
        }
        for condition in status.get("conditions", ())
    ]
    kept = {
        **status,
        "acceptance": {"verdict": acceptance.get("verdict", "")},
        "conditions": sorted(conditions, key=lambda condition: str(condition["type"])),
        "lastEvidence": _FIGURES.sub("#", status.get("lastEvidence", "")),
    }
    # The API server keeps nothing of what is empty, and of what never was there.
    return {key: value for key, value in kept.items() if value not in ("", 0, [], {}, None)}


def moved(old: Rendered, new: Rendered) -> bool:
    """Say whether a shown number moved enough to be worth a write, or a condition's sentence has others."""
    shown = zip(_figures(old), _figures(new), strict=False)
    return _sentences(old) != _sentences(new) or any(
        abs(after - before) >= NUMBER_STEP - 1e-9 for before, after in shown
    )


def _sentences(status: Rendered) -> dict[str, str]:
    return {item["type"]: item.get("message", "") for item in status.get("conditions", ())}


def _figures(status: Rendered) -> list[float]:
    acceptance = status.get("acceptance") or {}
    texts: list[str] = []
    for name in _NUMBERS:
        value = acceptance.get(name) or "0"
        texts += value if isinstance(value, list) else [value]
    return [float(text or 0) for text in texts]


def due(old: Rendered, new: Rendered, seconds_since_write: float) -> bool:
    """Say whether a status should be written now."""
    if essence(old) != essence(new):
        return True
    return seconds_since_write >= NUMBER_SECONDS and moved(old, new)


@dataclass(slots=True)
class StatusWriter:
    """Writes the status of one server, and the only one who does."""

    kube: Kube
    store: Store
    clock: Clock
    owes: bool = False
    """Whether a number has moved that is not written yet: nothing may be heard that would bring the next pass."""
    _written: float = field(default=float("-inf"))

    async def write(self, seen: SpecDecodeServer, status: SpecDecodeServerStatus) -> bool:
        """Write if it is due; says whether it was.

        Raises
        ------
        ConflictError
            The object changed since the pass read it: its next pass decides anew.
        """
        live = self.store.server((seen.namespace, seen.name))
        if live is None:
            return False
        new = rendered(status)
        now = self.clock.monotonic()
        old = live.get("status", {})
        self.owes = moved(old, new)
        if not due(old, new, now - self._written):
            return False
        # The version that the pass has seen: what it decided may not hold for a newer one.
        await self._apply(seen.metadata, new)
        self._written, self.owes = now, False
        return True

    async def write_as_it_is(self, seen: dict[str, Any], status: Rendered) -> None:
        """Write the status of a server that can't be read, where it is another one than it has.

        Raises
        ------
        KubeError
            The API server does not take it.
        """
        if status != seen.get("status"):
            await self._apply(seen["metadata"], status)

    async def _apply(self, seen: dict[str, Any], status: Rendered) -> None:
        metadata = {key: seen[key] for key in ("namespace", "name", "uid", "resourceVersion")}
        manifest = {"apiVersion": API_VERSION, "kind": KIND, "metadata": metadata, "status": status}
        self.store.answered(await self.kube.apply(manifest, "status"))
