"""Sums of one drafter's work on users' requests, which add over pods and subtract over time."""

from __future__ import annotations

from dataclasses import dataclass, fields
from itertools import zip_longest

from specdec.engine.protocol import Counters


@dataclass(frozen=True)
class Tally:
    """Counters without their labels; the unit of evidence is the finished request."""

    requests: int = 0
    finished_calls: int = 0
    finished_drafts: int = 0
    dd: int = 0
    dc: int = 0
    cc: int = 0
    calls: int = 0
    """Verify calls, those of requests that still run included."""
    correct: tuple[int, ...] = ()
    """Correct drafts per position, those of requests that still run included."""
    tokens: int = 0
    """Kept tokens of decode."""
    request_seconds: float = 0.0
    """Seconds that requests spent in decode batches."""

    @classmethod
    def of(cls, row: Counters) -> Tally:
        """Take the sums out of a row of the agent's status."""
        return cls(
            requests=row.requests,
            finished_calls=row.finished_calls,
            finished_drafts=row.finished_drafts,
            dd=row.dd,
            dc=row.dc,
            cc=row.cc,
            calls=row.calls,
            correct=row.correct,
            tokens=row.tokens,
            request_seconds=float(row.request_seconds),
        )

    def __add__(self, other: Tally) -> Tally:
        """Pool two tallies: sums first, the ratio afterwards."""
        return self._combined(other, 1)

    def __sub__(self, other: Tally) -> Tally:
        """Keep what came after another tally of the same counters."""
        return self._combined(other, -1)

    def _combined(self, other: Tally, sign: int) -> Tally:
        sums = {
            item.name: getattr(self, item.name) + sign * getattr(other, item.name)
            for item in fields(self)
            if item.name != "correct"
        }
        correct = tuple(a + sign * b for a, b in zip_longest(self.correct, other.correct, fillvalue=0))
        return Tally(correct=correct, **sums)

    def fell_below(self, earlier: Tally) -> bool:
        """Whether any sum went back, which counters never do while an engine's process lives."""
        change = self - earlier
        sums = (change.requests, change.finished_calls, change.finished_drafts, change.calls, *change.correct)
        return min(sums) < 0 or min(change.dd, change.dc, change.cc) < 0

    def impossible(self, steps: int) -> str:
        """Say why these sums since an engine's start cannot be true; "" if they can."""
        drafts = sum(self.correct)
        if drafts > self.calls * steps or self.finished_drafts > self.finished_calls * steps:
            return f"{drafts} correct drafts in {self.calls} verify calls of {steps} steps"
        if len(self.correct) > steps or any(
            a < b for a, b in zip(self.correct, self.correct[1:], strict=False)
        ):
            return f"correct drafts per position {list(self.correct)} with {steps} steps"
        if self.finished_calls > self.calls or self.requests > self.finished_calls:
            return (
                f"{self.requests} finished requests with {self.finished_calls} of {self.calls} verify calls"
            )
        if self.cc * self.requests < self.finished_calls**2:
            return (
                f"cross sum cc = {self.cc} for {self.finished_calls} verify calls of {self.requests} requests"
            )
        if self.dc * self.dc > self.dd * self.cc:
            return f"cross sums dc^2 = {self.dc**2} > dd * cc = {self.dd * self.cc}"
        return ""

    @property
    def accept_length(self) -> float | None:
        """1 + correct drafts / verify calls over finished requests; None without any."""
        return 1 + self.finished_drafts / self.finished_calls if self.finished_calls else None

    @property
    def per_position(self) -> tuple[float, ...]:
        """Share of verify calls in which the draft at each position was right."""
        return tuple(count / self.calls for count in self.correct) if self.calls else ()
