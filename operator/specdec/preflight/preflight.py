"""Judging a drafter before any GPU sees it: read, mend, check, report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from specdec.preflight.arguments import Arguments, rendered
from specdec.preflight.capabilities import capabilities
from specdec.preflight.capture import captured
from specdec.preflight.checks import CHECKS
from specdec.preflight.facts import (
    PLUGIN_PATCHES,
    Case,
    Declared,
    drafter_of,
    mapping,
    number,
    quantisation,
    target_of,
)
from specdec.preflight.finding import Finding, Severity, printable
from specdec.preflight.reading import read_drafter, read_target
from specdec.preflight.repair import Into, Mended, mend
from specdec.preflight.report import Report
from specdec.preflight.source import Source


class RepairMode(StrEnum):
    """Whether faults may be mended."""

    AUTO = "Auto"
    NEVER = "Never"


@dataclass(frozen=True)
class Request:
    """What is to be judged."""

    drafter: Source | None
    target: Source | None
    version: str
    arguments: Arguments = field(default_factory=rendered)
    declared: Declared = field(default_factory=Declared)
    patches: frozenset[str] = PLUGIN_PATCHES
    compute_capability: int | None = None
    repair: RepairMode = RepairMode.AUTO
    into: Into = Into.OVERLAY
    skip: frozenset[str] = frozenset()
    """Codes whose findings don't count."""


@dataclass(frozen=True)
class Outcome:
    """A report, and what it would take to serve the drafter."""

    report: Report
    mended: Mended


def preflight(request: Request) -> Outcome:
    """Read both models and judge them; every fault is in the report, none is raised."""
    read = []
    drafter = target = None
    if request.drafter is not None:
        reading = read_drafter(request.drafter)
        drafter = drafter_of(reading)
        read += reading.findings
    if request.target is not None:
        reading = read_target(request.target)
        target = target_of(reading, request.declared.target_name)
        read += reading.findings
    case = Case(
        drafter=drafter,
        target=target,
        engine=capabilities(request.version),
        version=request.version,
        arguments=request.arguments,
        declared=request.declared,
        patches=request.patches,
        compute_capability=request.compute_capability,
    )
    return judge(case, request, read)


def judge(case: Case, request: Request, read: list[Finding]) -> Outcome:
    """Judge facts that were read before."""
    mended = (
        mend(case, request.into) if request.repair is RepairMode.AUTO else Mended(case, into=request.into)
    )
    if case.drafter is not None and not case.drafter.entries and read:
        # Without tensors every rule on them would only repeat that the files are unreadable.
        mended = replace(mended, case=replace(mended.case, drafter=None))
    found = sorted(
        [*read, *(finding for check in CHECKS if (finding := check(mended.case)))],
        key=lambda finding: list(Severity).index(finding.severity),
    )
    report = Report(
        drafter=request.drafter.label if request.drafter else "",
        target=request.target.label if request.target else "",
        version=request.version,
        layout=case.drafter.layout.value if case.drafter else "",
        findings=tuple(finding for finding in found if finding.code not in request.skip),
        repairs=mended.repairs,
        skipped=tuple(finding for finding in found if finding.code in request.skip),
        resolved=resolved(mended.case),
    )
    return Outcome(report, mended)


def resolved(case: Case) -> Mapping[str, Any]:
    """What the engine will do with this drafter."""
    found: dict[str, Any] = {}
    boundaries = captured(case)
    if boundaries is not None:
        found["capturedLayerInputs"] = list(boundaries[:64])
    steps = case.arguments.number("--speculative-num-steps")
    if steps is not None:
        found["numSteps"] = steps
        found["draftTokens"] = steps + 1
    if case.engine is not None:
        found["acceptRateGauge"] = case.engine.accept_rate.value
    if case.target is not None:
        counts = {"files": case.target.files, "tensors": case.target.tensors, "bytes": case.target.size}
        found["target"] = {name: count for name, count in counts.items() if count is not None}
    if case.drafter is not None:
        sizes = ("hidden_size", "vocab_size", "draft_vocab_size")
        config = mapping(case.drafter.config, "transformer_layer_config")
        found["drafter"] = {key: number({**config, **case.drafter.config}, key) for key in sizes}
        if method := quantisation(case.drafter.config):
            # SGLang takes it from there whatever the arguments say of an unquantised drafter.
            found["drafter"]["quantisation"] = printable(method)
    return found
