"""The preflight inside the pod: a drafter's headers against the target and the engine that are really there.

A finding that the target or the arguments raise without any drafter is not the drafter's: only what it adds
refuses it. Where the preflight itself fails, the plugin's strict load still stands between a bad drafter and users.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from specdec.engine.plugin import DRAFTER_PATCHES, PATCHES
from specdec.preflight.arguments import Arguments, rendered
from specdec.preflight.capabilities import capabilities
from specdec.preflight.checkpoint import CheckpointRefusedError
from specdec.preflight.facts import Case, Target, drafter_of, target_of
from specdec.preflight.loading import NOTHING, Overlay
from specdec.preflight.preflight import Request, judge
from specdec.preflight.reading import read_drafter, read_target
from specdec.preflight.source import LocalFolder

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

log = logging.getLogger("specdec.agent")

IN_FORCE = frozenset({*PATCHES, *DRAFTER_PATCHES})


@dataclass(frozen=True)
class Surroundings:
    """What a drafter of this pod has to fit: read once per start."""

    target: Target | None
    version: str
    arguments: Arguments
    known: frozenset[str] = frozenset()
    """Codes that are found without any drafter."""


@dataclass(frozen=True)
class Judged:
    """A drafter that may be served, and what that takes."""

    config: dict[str, Any]
    repairs: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    rules: Overlay = NOTHING
    """What the plugin does to the tensors while it reads them."""


def survey(
    target: Path, version: str, argv: tuple[str, ...], environment: Mapping[str, str], steps: int
) -> Surroundings:
    """Read the target's headers and judge the start as it would be without a drafter."""
    arguments = rendered(argv, environment, steps=steps)
    around = Surroundings(target_of(read_target(LocalFolder(target))), version, arguments)
    without = judge(_case(around), Request(None, None, version), [])
    return Surroundings(
        around.target, version, arguments, frozenset(finding.code for finding in without.report.blocking)
    )


def judged(folder: Path, config: dict[str, Any], around: Surroundings) -> Judged:
    """Judge a drafter's folder and repair its config where that touches no weight.

    Raises
    ------
    CheckpointRefusedError
        A finding of its own blocks it.
    """
    try:
        reading = read_drafter(LocalFolder(folder))
        case = _case(around, drafter=drafter_of(reading))
        outcome = judge(case, Request(reading.source, None, around.version), reading.findings)
    except Exception:
        log.exception("the preflight failed on %s: it is served unjudged", folder)
        return Judged(config)
    for finding in outcome.report.blocking:
        if finding.code not in around.known:
            raise CheckpointRefusedError(finding.code, finding.sentence)
    mended = outcome.mended.case
    if mended.drafter is None:
        return Judged(config)
    new = mended.arguments
    added = {name: value for name, value in new.values.items() if around.arguments.values.get(name) != value}
    return Judged(
        dict(mended.drafter.config),
        tuple(repair.said for repair in outcome.report.repairs),
        tuple(word for name, value in added.items() for word in (name, value) if word),
        {name: v for name, v in new.environment.items() if around.arguments.environment.get(name) != v},
        outcome.mended.overlay,
    )


def _case(around: Surroundings, drafter: Any = None) -> Case:
    return Case(
        drafter=drafter,
        target=around.target,
        engine=capabilities(around.version),
        version=around.version,
        arguments=around.arguments,
        patches=IN_FORCE,
    )
