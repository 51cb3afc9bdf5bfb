"""An ended start or life of SGLang: why, whose fault, and the lines that tell."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from specdec.engine.protocol import NOT_THE_DRAFTERS, NOT_THERE, FailureReport


class Blame(StrEnum):
    """What the next start should do without."""

    DRAFTER = "drafter"
    GRAPHS = "graphs"
    SURROUNDINGS = "surroundings"
    """Nothing of the revision: a port, a network, the node's memory. Try the same again."""
    UNKNOWN = "unknown"


CHANGED = "ChangedWhileStaged"
"""Reason of a refusal that says nothing of the drafter: a copy was still under way."""


def blamed(reason: str) -> Blame:
    """Say whose fault it is that a drafter was refused; what a volume did may last, so it is not tried for ever."""
    if reason == CHANGED:
        return Blame.SURROUNDINGS
    return Blame.UNKNOWN if reason in NOT_THE_DRAFTERS | NOT_THERE else Blame.DRAFTER


@dataclass(frozen=True)
class Failure:
    """One ended start."""

    reason: str
    message: str
    blame: Blame
    ended: str = ""
    """How the process ended (`exit code 1`, `signal 9`); "" if the agent ended it."""
    lines: tuple[str, ...] = ()
    """Last telling lines of the log, bounded."""

    def report(self, at: str) -> FailureReport:
        """Say it in the status."""
        return FailureReport(
            reason=self.reason, message=self.message, ended=self.ended, lines=self.lines, at=at
        )


class StartFailedError(Exception):
    """A start ended before it served."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


def failed(reason: str, message: str, blame: Blame = Blame.SURROUNDINGS) -> StartFailedError:
    """Say why a start failed."""
    return StartFailedError(Failure(reason, message, blame))
