"""What the next start tries after a failed one: fewer graphs, no drafter, or the same again later.

A rung is only taken after graph capture failed or stopped making progress, and the status names the one
that worked: throughput without graphs is another product. Each costs more than the one before: first the
graphs of drafting off, then the large batches', then all.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from specdec.engine.agent.failures import Blame, Failure

LONGEST_PAUSE_SECONDS = 60.0


@dataclass(frozen=True)
class Rung:
    """One way to make graph capture cheaper."""

    name: str
    why: str = ""
    arguments: tuple[str, ...] = ()
    off_batch: int | None = None
    """Largest batch that graphs are captured for with drafting off; None leaves it to the engine, as for drafting."""


FEW = 8
"""Batch size that is kept when fewer graphs are captured."""
_FEWER_OFF = f"with drafting off only batches up to {FEW} have graphs: each state captures its own, and drafting is on most of the time"
_SMALLER = f"only batches up to {FEW} have graphs: larger ones decode without"

RUNGS = (
    Rung(""),
    Rung("FewerOffGraphs", _FEWER_OFF, off_batch=FEW),
    Rung("SmallerGraphs", _SMALLER, ("--cuda-graph-max-bs-decode", str(FEW)), off_batch=FEW),
    Rung("SmallerGraphs", _SMALLER, ("--cuda-graph-max-bs", str(FEW)), off_batch=FEW),
    Rung("NoGraphs", "no batch has graphs: the last way to serve at all", ("--disable-cuda-graph",)),
)
"""The argument's name changed between 0.5.17 and 0.5.23: whichever SGLang refuses is passed over."""
WITHOUT_GRAPHS = frozenset({"cpu"})
"""Platforms that capture nothing: no rung applies."""


@dataclass(frozen=True)
class Attempt:
    """How to start."""

    rung: int = 0
    with_drafter: bool = True
    blamed: bool = False
    """Whether the drafter is known to be why it is left out."""
    failures: int = 0
    """Failed starts in a row."""

    @property
    def pause_seconds(self) -> float:
        """How long to wait before it."""
        return min(LONGEST_PAUSE_SECONDS, 2.0 ** (self.failures - 1)) if self.failures else 0.0


def after_failure(attempt: Attempt, failure: Failure, *, platform: str) -> Attempt:
    """Decide on the next start.

    A drafter is left out when it is to blame, or when two starts with it failed for an unknown reason; if
    nothing proves its fault and the start without it fails too, the next one has it again.
    """
    again = replace(attempt, failures=attempt.failures + 1)
    if not attempt.with_drafter:
        return replace(again, with_drafter=not attempt.blamed)
    unknown_rung = failure.reason == "ArgumentRefused" and attempt.rung > 0
    if (failure.blame is Blame.GRAPHS and platform not in WITHOUT_GRAPHS) or unknown_rung:
        return replace(again, rung=min(attempt.rung + 1, len(RUNGS) - 1))
    if failure.blame is Blame.DRAFTER or (failure.blame is Blame.UNKNOWN and attempt.failures >= 1):
        return replace(again, with_drafter=False, blamed=failure.blame is Blame.DRAFTER)
    return again
