"""What a check is: a small function named as its fault, with the story that people need beside it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from specdec.preflight.facts import Case
from specdec.preflight.finding import MOST, Fault, Finding, Severity, printable

Judge = Callable[[Case], Fault | None]


@dataclass(frozen=True)
class Check:
    """One fault: how it is found, how it shows when it is not, how it is mended."""

    code: str
    judge: Judge
    severity: Severity
    symptom: str
    mend: str
    source: str

    @property
    def story(self) -> str:
        """What the fault is, in a sentence."""
        return (self.judge.__doc__ or "").strip().partition("\n")[0]

    def __call__(self, case: Case) -> Finding | None:
        """Judge a case."""
        fault = self.judge(case)
        if fault is None:
            return None
        severity = fault.severity or self.severity
        found, expected = printable(fault.found, MOST), printable(fault.expected, MOST)
        return Finding(self.code, severity, found, expected, fault.hint, self.source)


def check(
    *, symptom: str, mend: str, source: str, severity: Severity = Severity.ERROR
) -> Callable[[Judge], Check]:
    """Make a check of a function; its code is the function's name in CamelCase."""

    def made(judge: Judge) -> Check:
        return Check(code_of(getattr(judge, "__name__", "")), judge, severity, symptom, mend, source)

    return made


def code_of(name: str) -> str:
    """CamelCase of a function's name."""
    return "".join(part.capitalize() for part in name.split("_"))
