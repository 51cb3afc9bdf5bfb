"""Exact counters per revision, step count and source: sums only, no SGLang in here."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from specdec.engine.message import Counters, Source


class Key(NamedTuple):
    """What a counter counts apart."""

    revision: str
    steps: int
    source: Source


@dataclass(slots=True)
class Drafted:
    """One request's verify calls under one key, until it finishes."""

    calls: int = 0
    drafts: int = 0


class Tally:
    """The rows of one decode batch under one key, summed up before anything is locked or looked up."""

    __slots__ = ("drafts", "rows", "tokens")

    def __init__(self, steps: int) -> None:
        self.rows = 0
        self.tokens = 0
        self.drafts = [0] * (steps + 1)
        """How many rows had 0, 1, ... correct drafts."""

    def add(self, drafts: int, tokens: int) -> None:
        """One request: so many drafts were right, so many tokens were kept."""
        self.rows += 1
        self.tokens += tokens
        self.drafts[drafts] += 1

    def correct(self) -> list[int]:
        """Correct drafts per position: those rows that had at least that many."""
        return [sum(self.drafts[position:]) for position in range(1, len(self.drafts))]


@dataclass(slots=True)
class _Sums:
    calls: int = 0
    correct: list[int] = field(default_factory=list)
    tokens: int = 0
    seconds: float = 0.0
    request_seconds: float = 0.0
    requests: int = 0
    dd: int = 0
    dc: int = 0
    cc: int = 0
    finished_drafts: int = 0
    finished_calls: int = 0


class Table:
    """All counters of one process. One thread adds, others take snapshots."""

    def __init__(self) -> None:
        self._sums: dict[Key, _Sums] = {}
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        """Hold the table for one batch: a snapshot sees it before or after, never between."""
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def add_batch(self, key: Key, tally: Tally, seconds: float, rows: int) -> None:
        """One decode batch's rows under one key; `seconds` is the wall time of the whole batch of `rows` rows."""
        sums = self._of(key)
        sums.tokens += tally.tokens
        sums.seconds += seconds * tally.rows / rows
        sums.request_seconds += seconds * tally.rows
        if key.steps == 0:
            return
        sums.calls += tally.rows
        for position, count in enumerate(tally.correct()):
            sums.correct[position] += count

    def add_finished(self, drafted: Mapping[Key, Drafted]) -> None:
        """One request has finished: book its totals under every key that it ran under."""
        for key, own in drafted.items():
            if own.calls == 0:
                continue
            sums = self._of(key)
            sums.requests += 1
            sums.dd += own.drafts * own.drafts
            sums.dc += own.drafts * own.calls
            sums.cc += own.calls * own.calls
            sums.finished_drafts += own.drafts
            sums.finished_calls += own.calls

    def snapshot(self) -> tuple[Counters, ...]:
        """All counters now."""
        with self._lock:
            return tuple(
                Counters(
                    revision=key.revision,
                    steps=key.steps,
                    source=key.source,
                    requests=sums.requests,
                    calls=sums.calls,
                    correct=tuple(sums.correct),
                    tokens=sums.tokens,
                    seconds=f"{sums.seconds:.6f}",
                    request_seconds=f"{sums.request_seconds:.6f}",
                    dd=sums.dd,
                    dc=sums.dc,
                    cc=sums.cc,
                    finished_drafts=sums.finished_drafts,
                    finished_calls=sums.finished_calls,
                )
                for key, sums in self._sums.items()
            )

    def _of(self, key: Key) -> _Sums:
        sums = self._sums.get(key)
        if sums is None:
            sums = self._sums[key] = _Sums(correct=[0] * key.steps)
        return sums
