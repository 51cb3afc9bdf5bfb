"""`spec.preflight` and `status.preflight`: how a drafter is judged by its headers before it may serve, and what was found."""

from __future__ import annotations

import hashlib
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from specdec.api.base import ApiModel, rule, rules
from specdec.preflight.preflight import RepairMode
from specdec.preflight.stories import STORIES


class PreflightMode(StrEnum):
    """What follows from a finding that blocks."""

    ENFORCE = "Enforce"
    WARN = "Warn"
    OFF = "Off"


_KNOWN = ", ".join(f"'{code}'" for code in sorted(STORIES))

Code = Annotated[
    str,
    Field(
        max_length=64,
        pattern=r"^[A-Z][A-Za-z0-9]*$",
        json_schema_extra=rules(
            rule(
                f"self in [{_KNOWN}]",
                "must be the code of a finding, as docs/reference/preflight.md lists them",
                messageExpression="self + ' is no code of a finding: docs/reference/preflight.md lists them, and so does"
                " kubectl specdec preflight --explain CODE'",
            )
        ),
    ),
]


class Preflight(ApiModel):
    """How a drafter is judged by its config and headers before it may serve; a change restarts nothing."""

    mode: PreflightMode = PreflightMode.ENFORCE
    """Enforce refuses a drafter that a finding blocks; Warn says it and goes on; Off does not judge, and the engine refuses while loading what it can't use."""
    skip_checks: Annotated[tuple[Code, ...], Field(max_length=32)] = ()
    """Codes of findings that don't count; those that were found are in status.preflight.skipped."""
    repair: RepairMode = RepairMode.AUTO
    """Auto mends what needs no change of a weight, in the overlay and while loading, whatever the mode; Never serves the drafter as it is."""

    @property
    def settings(self) -> str:
        """Short name of what a result depends on, apart from the revision: skipped codes and repair."""
        text = f"{self.repair.value}:{','.join(sorted(self.skip_checks))}"
        return hashlib.sha256(text.encode()).hexdigest()[:8]


class PreflightStatus(ApiModel):
    """What the preflight of the spec's drafter found; condition PreflightPassed has the sentences."""

    revision: str = ""
    """The revision that was judged."""
    verdict: str = ""
    """Passed, Blocked or Unknown."""
    findings: tuple[str, ...] = ()
    """Codes of what was found, worst first."""
    repairs: tuple[str, ...] = ()
    """Codes of what was mended without touching a weight."""
    skipped: tuple[str, ...] = ()
    """Codes of what was found and does not count, by spec.preflight.skipChecks."""
