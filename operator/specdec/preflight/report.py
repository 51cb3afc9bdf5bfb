"""The preflight's answer as a whole: findings, repairs, a verdict, and forms of it for people and programs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from specdec.preflight.finding import Finding, Repair, Severity

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

    def compact(self, most: int = TERMINATION_BYTES) -> str:
        """Codes, found and expected, in so many bytes; sentences are made by the reader."""
        rows = [
            [finding.code, finding.severity.value[0], finding.found[:160], finding.expected[:80]]
            for finding in self.findings
        ]
        while True:
            message = {
                "verdict": self.verdict.value,
                "findings": rows,
                "more": len(self.findings) - len(rows),
                "repairs": [repair.code for repair in self.repairs],
                "digests": dict(self.digests),
            }
            text = json.dumps(message, separators=(",", ":"), ensure_ascii=True)
            if len(text) <= most or not rows:
                return text[:most]
            rows = rows[:-1]
