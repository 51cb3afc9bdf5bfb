"""The preflight's answer as a whole: findings, repairs, a verdict, and forms of it for people and programs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from specdec.preflight.finding import Finding, Repair, Severity, printable
from specdec.preflight.stories import STORIES

MOST = 1000
"""Characters of one part of a finding that is read back."""
TERMINATION_BYTES = 4096
"""What Kubernetes keeps of a termination message."""


class Verdict(StrEnum):
    """Whether the drafter may roll out."""

    PASSED = "Passed"
    BLOCKED = "Blocked"
    UNKNOWN = "Unknown"
    """Nothing blocks, but something could not be judged."""


EXIT_CODES = {Verdict.PASSED: 0, Verdict.BLOCKED: 1, Verdict.UNKNOWN: 2}


@dataclass(frozen=True)
class Report:
    """One preflight."""

    drafter: str
    target: str
    version: str
    layout: str = ""
    findings: tuple[Finding, ...] = ()
    repairs: tuple[Repair, ...] = ()
    skipped: tuple[Finding, ...] = ()
    """Findings whose codes the user chose to skip."""
    resolved: Mapping[str, Any] = field(default_factory=dict)
    """What the engine will do: captured layers, steps, what its gauge means."""
    digests: Mapping[str, str] = field(default_factory=dict)
    left_out: int = 0
    """Findings that a compact form had no room for."""

    @property
    def verdict(self) -> Verdict:
        """The worst finding decides."""
        severities = {finding.severity for finding in self.findings}
        if Severity.ERROR in severities:
            return Verdict.BLOCKED
        return Verdict.UNKNOWN if Severity.UNKNOWN in severities else Verdict.PASSED

    @property
    def exit_code(self) -> int:
        """0 passed, 1 blocked, 2 could not judge."""
        return EXIT_CODES[self.verdict]

    @property
    def blocking(self) -> tuple[Finding, ...]:
        """Findings that block."""
        return tuple(finding for finding in self.findings if finding.severity is Severity.ERROR)

    @property
    def reason(self) -> str:
        """First blocking code, for a condition."""
        return self.blocking[0].code if self.blocking else self.verdict.value

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        return {
            "verdict": self.verdict.value,
            "drafter": self.drafter,
            "target": self.target,
            "engineVersion": self.version,
            "format": self.layout,
            "findings": [finding.to_json() for finding in self.findings],
            "repairs": [repair.to_json() for repair in self.repairs],
            "skipped": [finding.to_json() for finding in self.skipped],
            "resolved": dict(self.resolved),
            "digests": dict(self.digests),
        }

    def compact(self, most: int = TERMINATION_BYTES) -> dict[str, Any]:
        """Codes, found and expected, in so many bytes of JSON; sentences are made by the reader."""
        rows = [
            [finding.code, finding.severity.value[0], finding.found[:160], finding.expected[:80]]
            for finding in self.findings
        ]
        while True:
            message = {
                "engineVersion": self.version[:32],
                "findings": rows,
                "more": self.left_out + len(self.findings) - len(rows),
                "repairs": [repair.code for repair in self.repairs],
                "skipped": [finding.code for finding in self.skipped],
                "digests": dict(self.digests),
            }
            size = len(json.dumps(message, separators=(",", ":"), ensure_ascii=True))
            if size <= most or not rows or not (rows[0][2] or rows[0][3]):
                return message
            # The worst finding stays whatever the room: without it the reader would take a block for a pass.
            rows = (
                rows[:-1]
                if len(rows) > 1
                else [[*rows[0][:2], *(part[: len(part) // 2] for part in rows[0][2:])]]
            )


def expanded(content: Mapping[str, Any]) -> Report:
    """Read what :meth:`Report.compact` wrote; what to do and where a rule comes from is in the codes' stories.

    Raises
    ------
    ValueError
        It is something else.
    """
    try:
        return Report(
            drafter="",
            target="",
            version=_fit(content["engineVersion"]),
            findings=tuple(_finding(*row) for row in content["findings"]),
            repairs=tuple(Repair(_fit(code), _told(str(code))[0]) for code in content["repairs"]),
            skipped=tuple(_finding(str(code), "W", "", "") for code in content["skipped"]),
            digests={str(name): str(digest) for name, digest in dict(content["digests"]).items()},
            left_out=int(content["more"]),
        )
    except (KeyError, TypeError) as error:
        raise ValueError(f"no compact report ({error!r}): operator and engine differ in version") from error


def read(content: Mapping[str, Any]) -> Report:
    """Read what :meth:`Report.to_json` wrote.

    Raises
    ------
    ValueError
        It is something else.
    """
    try:
        return Report(
            drafter=str(content["drafter"]),
            target=str(content["target"]),
            version=_fit(content["engineVersion"]),
            layout=_fit(content["format"]),
            findings=tuple(_whole(row) for row in content["findings"]),
            repairs=tuple(Repair(_fit(row["code"]), _fit(row["said"])) for row in content["repairs"]),
            skipped=tuple(_whole(row) for row in content["skipped"]),
            resolved=dict(content["resolved"]),
            digests=dict(content["digests"]),
        )
    except (KeyError, TypeError) as error:
        raise ValueError(f"no report ({error!r}): this command and the engine differ in version") from error


def _whole(row: Mapping[str, Any]) -> Finding:
    words = {name: _fit(row[name]) for name in ("code", "found", "expected", "hint", "source")}
    return Finding(severity=Severity(row["severity"]), **words)


def _finding(code: str, severity: str, found: str, expected: str) -> Finding:
    what, mend, source = _told(str(code))
    named = next((one for one in Severity if one.value[0] == severity), Severity.UNKNOWN)
    return Finding(_fit(code), named, _fit(found) or what, _fit(expected), mend, source)


def _fit(text: object) -> str:
    """Another process's words, made fit for a terminal."""
    return printable(str(text), MOST)


def _told(code: str) -> tuple[str, str, str]:
    """What a code is, how it is mended and where the rule comes from; a code of a newer engine tells itself."""
    story = STORIES.get(code)
    return (
        (story.what, story.mend.rstrip("."), story.source)
        if story
        else (_fit(code), "see the engine's documentation", "")
    )
