"""The preflight inside the pod: a drafter's headers against the target and the engine that are really there.

A finding that the target or the arguments raise without any drafter is not the drafter's: only what it adds
refuses it. Where the preflight itself fails, the plugin's strict load still stands between a bad drafter and users.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from specdec.api.preflight import Preflight, PreflightMode
from specdec.engine.agent.times import now_text
from specdec.engine.plugin import DRAFTER_PATCHES, PATCHES
from specdec.engine.protocol import PreflightResult
from specdec.preflight.arguments import Arguments, rendered
from specdec.preflight.capabilities import capabilities
from specdec.preflight.checkpoint import CheckpointRefusedError
from specdec.preflight.facts import Case, Declared, Target, drafter_of, mapping, target_of
from specdec.preflight.loading import NOTHING, Overlay
from specdec.preflight.preflight import Request, judge
from specdec.preflight.reading import read_outline
from specdec.preflight.source import LocalFolder

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from specdec.api.drafter import Layers
    from specdec.preflight.finding import Finding
    from specdec.preflight.preflight import Outcome
    from specdec.preflight.reading import Reading
    from specdec.preflight.report import Report

log = logging.getLogger("specdec.agent")

IN_FORCE = frozenset({*PATCHES, *DRAFTER_PATCHES})
REPORT_BYTES = 3600
"""Room for the report beside the result's other fields in the 4096 bytes of a termination message."""
STANDARD = Preflight()
"""How a drafter is judged where the spec says nothing."""


class PreflightRefusedError(CheckpointRefusedError):
    """The drafter can't be served, and the preflight has a whole report on it."""

    def __init__(self, reason: str, message: str, report: Report) -> None:
        super().__init__(reason, message)
        self.report = report


@dataclass(frozen=True)
class Surroundings:
    """What a drafter of this pod has to fit: read once per start."""

    target: Target | None
    version: str
    arguments: Arguments
    known: frozenset[str] = frozenset()
    """Codes that block without any drafter."""
    said: frozenset[Finding] = frozenset()
    """All that is found without one."""

    @property
    def sees(self) -> bool:
        """Whether the target takes images."""
        return self.target is not None and bool(mapping(self.target.config, "vision_config"))


@dataclass(frozen=True)
class Judged:
    """A drafter that may be served, and what that takes."""

    config: dict[str, Any]
    repairs: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    rules: Overlay = NOTHING
    """What the plugin does to the tensors while it reads them."""
    report: Report | None = None
    """None if it was not judged."""


def survey(
    target: Path, version: str, argv: tuple[str, ...], environment: Mapping[str, str], steps: int
) -> Surroundings:
    """Read the target's config and judge the start as it would be without a drafter.

    No check of a drafter needs the target's headers, and parsing those of a large one takes seconds of a core and
    stays in the agent's memory (docs/decisions/0009).
    """
    arguments = rendered(argv, environment, steps=steps)
    around = Surroundings(target_of(read_outline(LocalFolder(target))), version, arguments)
    without = judge(_case(around), Request(None, None, version), [])
    known = frozenset(finding.code for finding in without.report.blocking)
    return Surroundings(around.target, version, arguments, known, frozenset(without.report.findings))


def judged(
    reading: Reading, around: Surroundings, wish: Preflight = STANDARD, layers: Layers | None = None
) -> Judged:
    """Judge a drafter that was read as the spec wishes, and repair its config where that touches no weight.

    Raises
    ------
    PreflightRefusedError
        A finding of its own blocks it, and the spec says Enforce.
    """
    config = reading.config or {}
    try:
        outcome = examined(reading, around, wish, layers)
    except Exception:
        log.exception("the preflight failed on %s: it is served unjudged", reading.source.label)
        return Judged(config)
    report = None if wish.mode is PreflightMode.OFF else outcome.report
    if report is not None and report.blocking and wish.mode is PreflightMode.ENFORCE:
        raise PreflightRefusedError(report.reason, report.blocking[0].sentence, report)
    mended = outcome.mended.case
    if mended.drafter is None:
        return Judged(config, report=report)
    new = mended.arguments
    added = {name: value for name, value in new.values.items() if around.arguments.values.get(name) != value}
    return Judged(
        dict(mended.drafter.config),
        tuple(repair.said for repair in outcome.report.repairs),
        tuple(word for name, value in added.items() for word in (name, value) if word),
        {name: v for name, v in new.environment.items() if around.arguments.environment.get(name) != v},
        outcome.mended.overlay,
        report,
    )


def examined(
    reading: Reading, around: Surroundings, wish: Preflight, layers: Layers | None = None
) -> Outcome:
    """Run all checks on what was read of a drafter; the report holds what it adds to what is found without it."""
    declared = layers.declared if layers else Declared()
    case = replace(_case(around), drafter=drafter_of(reading), declared=declared)
    request = Request(
        reading.source, None, around.version, repair=wish.repair, skip=frozenset(wish.skip_checks)
    )
    outcome = judge(case, request, reading.findings)
    found = outcome.report.findings
    own = tuple(one for one in found if one.code not in around.known and one not in around.said)
    return replace(outcome, report=replace(outcome.report, findings=own))


def explained(
    refusal: CheckpointRefusedError,
    reading: Reading,
    around: Surroundings,
    wish: Preflight,
    layers: Layers | None,
) -> CheckpointRefusedError:
    """Add the preflight's report to a refusal of files that can't even be linked, if it has something to say."""
    if wish.mode is PreflightMode.OFF:
        return refusal
    try:
        report = examined(reading, around, wish, layers).report
    except Exception:
        log.exception("the preflight failed on %s", reading.source.label)
        return refusal
    return PreflightRefusedError(refusal.reason, str(refusal), report) if report.blocking else refusal


def result(report: Report, revision: str, wish: Preflight) -> PreflightResult:
    """Make a report fit for the operator: short enough for a termination message, and named by what it holds for."""
    return PreflightResult(
        revision=revision, settings=wish.settings, at=now_text(), report=report.compact(REPORT_BYTES)
    )


def _case(around: Surroundings) -> Case:
    return Case(
        drafter=None,
        target=around.target,
        engine=capabilities(around.version),
        version=around.version,
        arguments=around.arguments,
        patches=IN_FORCE,
    )
