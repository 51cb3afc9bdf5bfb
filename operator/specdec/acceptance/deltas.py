"""What each engine did between two looks, by revision and step count."""

from __future__ import annotations

from collections.abc import Mapping

from specdec.acceptance.measure import Key, Ledger, PodState
from specdec.acceptance.tally import Tally


def deltas(before: Ledger, after: Ledger) -> Mapping[Key, Tally]:
    """Subtract one look from the next; what can't be trusted or was not seen to begin is left out."""
    return {
        key: window.last - base
        for key, window in after.windows.items()
        if window.state is PodState.COUNTING and (base := _base(before, key, window.boot)) is not None
    }


def _base(before: Ledger, key: Key, boot: str) -> Tally | None:
    """Find what a window's counters stood at; None where that is not known."""
    if key[0] not in before.heard:
        return None
    old = before.windows.get(key)
    if old is None or old.boot != boot:
        return Tally()  # a row that began since, or an engine's process that did
    return old.last if old.state is not PodState.IMPOSSIBLE else None
