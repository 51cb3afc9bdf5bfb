"""The preflight's place in a rollout: what its result forbids, and what it says. Pure.

A drafter that an engine takes in place is judged by that engine's agent while it is staged; one that engines
would be started with is judged by a Job first (`launch.unjudged`). Either way the result is kept in the
revision's record, by the settings that it holds for, so that nothing at rest is judged twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache

from specdec.api.conditions import Reason
from specdec.api.preflight import PreflightMode, PreflightStatus
from specdec.engine.protocol import PreflightResult
from specdec.preflight.report import Report, Verdict, expanded
from specdec.rollout.clock import seconds
from specdec.rollout.inputs import UNJUDGED
from specdec.rollout.quarantine import PROMOTED, rejected
from specdec.rollout.revisions import drafter_ref, version
from specdec.rollout.scene import Scene
from specdec.rollout.world import RevisionRecord

Said = tuple[str, str, str]
"""Status, reason and message of a condition."""

REFUSAL = "preflight: "
"""Beginning of a rejection's sentence that the preflight wrote: it holds only while the spec says Enforce."""


def report(scene: Scene, record: RevisionRecord) -> Report | None:
    """Read what is known of a revision under the spec's present settings."""
    kept = _kept(record.preflight)
    return _expanded(record.preflight) if kept and kept.settings == scene.spec.preflight.settings else None


def learned(scene: Scene, record: RevisionRecord) -> RevisionRecord:
    """Keep the first result that an agent or a Job has for this revision."""
    if scene.spec.preflight.mode is PreflightMode.OFF or report(scene, record) is not None:
        return record
    found = next((heard for heard in _heard(scene, record) if judges(heard)), None)
    return replace(record, preflight=found.model_dump_json(by_alias=True)) if found else record


def _heard(scene: Scene, record: RevisionRecord) -> Iterator[PreflightResult]:
    """Yield the results of this revision's present trial under the present settings."""
    begun = seconds(record.at) or 0.0
    agents = [
        pod.status.preflight
        for pod in scene.world.pods
        if pod.status and pod.status.preflight and (seconds(pod.status.preflight.at) or 0.0) > begun
    ]
    # Kubernetes cuts a Job's birth down to the second.
    jobs = [job.result for job in scene.world.preflights if job.result and job.created + 1.0 > begun]
    for heard in (*agents, *jobs):
        if (heard.revision, heard.settings) == (record.name, scene.spec.preflight.settings):
            yield heard


def judges(heard: PreflightResult) -> bool:
    """Whether a result is about the drafter, and not only about files that aren't there yet."""
    try:
        return not UNJUDGED & {finding.code for finding in expanded(heard.report).findings}
    except ValueError:
        return False


def admits(scene: Scene, record: RevisionRecord) -> bool:
    """Whether engines may be started with a revision: its preflight passed, or is not asked for."""
    mode = scene.spec.preflight.mode
    by_will = mode is PreflightMode.OFF or record.name == scene.rollout.pinned_revision
    if by_will or not scene.drafting_wanted or drafter_ref(record) is None or record.outcome == PROMOTED:
        return True
    found = report(scene, record)
    return found is not None and (mode is PreflightMode.WARN or not found.blocking)


def refusal(scene: Scene, record: RevisionRecord) -> tuple[str, str] | None:
    """Say why the preflight refuses a revision: the first blocking code and all findings."""
    if scene.spec.preflight.mode is not PreflightMode.ENFORCE or record.outcome == PROMOTED:
        return None
    found = report(scene, record)
    if found is None or not found.blocking:
        return None
    return found.reason, f"{REFUSAL}{words(found)}"


def lapsed(scene: Scene, record: RevisionRecord) -> bool:
    """Whether the preflight's refusal of what the spec asks for holds no longer: the spec's settings are others."""
    ours = rejected(record) and record.message.startswith(REFUSAL) and record.name == scene.desired.name
    return ours and refusal(scene, record) is None


def passed(scene: Scene) -> Said:
    """Condition PreflightPassed: what is known of the spec's drafter."""
    record, mode = scene.desired, scene.spec.preflight.mode
    if drafter_ref(record) is None:
        return "Unknown", Reason.NO_DRAFTER, "the spec names no drafter"
    if mode is PreflightMode.OFF:
        return "Unknown", Reason.PREFLIGHT_OFF, f"preflight.mode is Off: {version(record)} is not judged"
    found = report(scene, record)
    if found is None:
        under = " under the present settings of spec.preflight" if record.preflight else ""
        return "Unknown", Reason.PREFLIGHT_PENDING, f"{version(record)} has not been judged yet{under}"
    match found.verdict:
        case Verdict.BLOCKED:
            return "False", found.reason, words(found)
        case Verdict.UNKNOWN:
            return "Unknown", found.findings[0].code, words(found)
        case Verdict.PASSED:
            return "True", Reason.PREFLIGHT_PASSED, words(found) or f"nothing was found on {version(record)}"


def words(found: Report) -> str:
    """All findings in order, each with its code; then what was mended and skipped."""
    parts = [f"{one.code}: {one.sentence}" for one in found.findings]
    parts += [f"{found.left_out} more findings"] if found.left_out else []
    for word, codes in (("mended", found.repairs), ("skipped", found.skipped)):
        parts += [f"{word}: {', '.join(dict.fromkeys(one.code for one in codes))}"] if codes else []
    return "; ".join(parts)


def shown(scene: Scene) -> PreflightStatus | None:
    """What the status shows of the spec's drafter."""
    found = report(scene, scene.desired)
    if found is None or scene.spec.preflight.mode is PreflightMode.OFF:
        return None
    return PreflightStatus(
        revision=scene.desired.name,
        verdict=found.verdict.value,
        findings=_codes(found.findings),
        repairs=_codes(found.repairs),
        skipped=_codes(found.skipped),
    )


def _codes(found: tuple[object, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(str(getattr(one, "code", "")) for one in found))


@lru_cache(maxsize=1024)
def _kept(text: str) -> PreflightResult | None:
    try:
        return PreflightResult.model_validate_json(text) if text else None
    except ValueError:
        return None  # another operator's, or someone's hand


@lru_cache(maxsize=1024)
def _expanded(text: str) -> Report | None:
    kept = _kept(text)
    try:
        return expanded(kept.report) if kept else None
    except ValueError:
        return None
