"""What became of each revision: the records as this pass leaves them.

Each rule that rejects is one function, named for what it found, that answers with a reason and a sentence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from specdec.acceptance.verdict import Judgement, Layer
from specdec.api.conditions import Reason
from specdec.engine.protocol import NOT_THE_DRAFTERS, Candidate, CandidateState
from specdec.rollout import preflight
from specdec.rollout.clock import exact, seconds
from specdec.rollout.inputs import MISSING
from specdec.rollout.quarantine import BY_PERSON, PROMOTED, REJECTED, SUPERSEDED, still_holds, twin
from specdec.rollout.revisions import drafter_ref, version
from specdec.rollout.scene import ENDED, Scene, candidate, living_candidate, moment
from specdec.rollout.world import PodView, RevisionRecord

Found = tuple[str, str]
"""Reason and sentence."""

NOT_CONFIRMED = "NotConfirmed"
"""The agent's reason where its dead-man switch acted."""

ENGINE_CRASHED = "EngineCrashed"
"""The agent's reason where SGLang ended by itself while the candidate served, and nothing around it explains that."""

NOT_ITS_FAULT = NOT_THE_DRAFTERS.union(
    (Reason.SUPERSEDED, Reason.ROLLED_BACK, Reason.DRAFTING_OFF, Reason.ABORTED_BY_USER)
)
"""Reasons of an ended candidate that say nothing about the drafter: it is tried again."""

NOT_IN_PLACE = {"ConfigDiffers", "NotSwappable", "TokenMapDiffers"}
"""Reasons of a refusal that a restart with this drafter does not meet."""

HEARD_MARGIN_SECONDS = 2.0
"""A status heard so soon after a new trial began may still speak of the one before."""


def settled(scene: Scene) -> tuple[RevisionRecord, ...]:
    """Bring every record up to what is known now."""
    return tuple(_settled(scene, record) for record in scene.records)


def _settled(scene: Scene, record: RevisionRecord) -> RevisionRecord:
    record = _learned(scene, record)
    if record.outcome == REJECTED:
        return _given_another_trial(scene, record)
    may_reject = scene.enforcing and record.name != scene.rollout.pinned_revision
    if may_reject and (found := _rejection(scene, record)):
        return _rejected(scene, record, found)
    return record if record.outcome == PROMOTED else _undecided(scene, record)


def _rejected(scene: Scene, record: RevisionRecord, found: Found) -> RevisionRecord:
    reason, message = found
    target, engine = _surroundings(scene)
    return replace(
        record,
        outcome=REJECTED,
        reason=reason,
        message=message,
        target_digest=target or record.target_digest,
        engine=engine or record.engine,
        at=exact(scene.now),
        **_evidence(scene, record),
    )


def _evidence(scene: Scene, record: RevisionRecord) -> dict[str, Any]:
    """What live traffic had shown when the outcome was written."""
    verdict = scene.verdict(record.name)
    if verdict is None or verdict.accept_length is None:
        return {}
    length = f"{verdict.accept_length:.2f}"
    return {"accept_length": length, "requests": verdict.requests, "calls": verdict.calls}


def _undecided(scene: Scene, record: RevisionRecord) -> RevisionRecord:
    """Carry a revision on that is neither promoted nor rejected."""
    at = exact(scene.now)
    if record.outcome == SUPERSEDED:
        wanted = record.name in {scene.desired.name, scene.rollout.pinned_revision}
        return replace(record, outcome="", reason="", message="", at=at) if wanted else record
    if _left_behind(scene, record):
        return replace(record, outcome=SUPERSEDED, reason=Reason.SUPERSEDED, at=at)
    if promotable(scene, record):
        verdict = scene.verdict(record.name)
        message = verdict.message if verdict else ""
        evidence = _evidence(scene, record)
        return replace(record, outcome=PROMOTED, reason="", message=message, at=at, **evidence)
    if reason := _needs_restart(scene, record):
        return replace(record, reason=Reason.NEEDS_RESTART, message=reason)
    return record


def _learned(scene: Scene, record: RevisionRecord) -> RevisionRecord:
    """Fill in the digest and the surroundings once an agent has named them, and what the preflight found."""
    record = preflight.learned(scene, record)
    digests = (
        digest
        for pod in scene.world.pods
        if pod.status
        for revision, digest in (
            (pod.status.revision, pod.status.digest),
            *([(pod.status.candidate.revision, pod.status.candidate.digest)] if pod.status.candidate else []),
        )
        if revision == record.name and digest
    )
    digest = record.digest or next(digests, "")
    if digest == record.digest:
        return record
    target, engine = _surroundings(scene)
    return replace(
        record,
        digest=digest,
        target_digest=record.target_digest or target,
        engine=record.engine or engine,
    )


def _surroundings(scene: Scene) -> tuple[str, str]:
    """Target digest and engine build of the pods that serve."""
    for _, status in scene.engines:
        return status.target_digest, status.engine
    return "", ""


def _given_another_trial(scene: Scene, record: RevisionRecord) -> RevisionRecord:
    """Forget a rejection once target or engine are others than it failed with."""
    target, engine = _surroundings(scene)
    holds = still_holds(record, target, engine) or record.reason in BY_PERSON
    if holds and not preflight.lapsed(scene, record):
        return record
    return replace(
        record,
        outcome="",
        reason="",
        message="",
        preflight="",
        target_digest="",
        engine="",
        at=exact(scene.now),
    )


def _rejection(scene: Scene, record: RevisionRecord) -> Found | None:
    rules: tuple[Callable[[Scene, RevisionRecord], Found | None], ...] = (
        contents_quarantined,
        blocked_by_preflight,
        refused_at_load,
        failed_its_probe,
        crashed_its_engine,
        unconfirmed_and_suspected,
        started_without,
        found_unhealthy,
    )
    return next((found for rule in rules if (found := rule(scene, record))), None)


def contents_quarantined(scene: Scene, record: RevisionRecord) -> Found | None:
    """Find a drafter whose contents were rejected before, under another path or version."""
    if record.outcome == PROMOTED:
        return None
    target, engine = _surroundings(scene)
    known = twin(scene.records, record, target, engine)
    if known is None:
        return None
    message = f"{version(record)} has the contents of {version(known)}, which was rejected: {known.message}"
    return Reason.QUARANTINED, message


def blocked_by_preflight(scene: Scene, record: RevisionRecord) -> Found | None:
    """Find a drafter that its config and headers show to be of no use."""
    return preflight.refusal(scene, record)


def refused_at_load(scene: Scene, record: RevisionRecord) -> Found | None:
    """Find a drafter that an engine refused to load."""
    for ended in _ended(scene, record):
        ours = ended.reason in NOT_ITS_FAULT | MISSING | NOT_IN_PLACE
        if ended.state is CandidateState.REFUSED and not ours:
            return ended.reason, ended.message
    return None


def failed_its_probe(scene: Scene, record: RevisionRecord) -> Found | None:
    """Find a candidate that the agent took back because of its probe."""
    for ended in _ended(scene, record):
        failed = ended.reason.startswith("ProbeFailed") or ended.reason == "DeadDrafter"
        if ended.state is CandidateState.SWAPPED_BACK and failed and ended.reason not in NOT_ITS_FAULT:
            return ended.reason.rpartition(": ")[2], ended.message
    return None


def crashed_its_engine(scene: Scene, record: RevisionRecord) -> Found | None:
    """Find a candidate that an engine ended with: the next engine would end, too."""
    crashed = (ended for ended in _ended(scene, record) if ended.reason == ENGINE_CRASHED)
    return next(((ended.reason, ended.message) for ended in crashed), None)


def unconfirmed_and_suspected(scene: Scene, record: RevisionRecord) -> Found | None:
    """Find a candidate that looked bad on live traffic when its dead-man switch acted: no reason to try it again."""
    verdict = scene.verdict(record.name)
    if verdict is None or verdict.judgement is not Judgement.UNHEALTHY:
        return None
    if any(ended.reason == NOT_CONFIRMED for ended in _ended(scene, record)):
        return verdict.reason, verdict.message
    return None


def started_without(scene: Scene, record: RevisionRecord) -> Found | None:
    """Find a drafter that an engine could not be started with: it serves without one."""
    plan = scene.plan
    if plan is None or plan.drafter is None or plan.revision != record.name:
        return None
    for pod, status in scene.engines:
        # Kubernetes cuts a pod's birth down to the second.
        newer = pod.created + 1.0 > (seconds(plan.written_at) or 0.0)
        if status.max_steps == 0 and status.reason and newer and status.reason not in NOT_ITS_FAULT | MISSING:
            return status.reason, status.message
    return None


def found_unhealthy(scene: Scene, record: RevisionRecord) -> Found | None:
    """Find a verdict beyond doubt on a drafter that serves."""
    verdict = scene.verdict(record.name)
    if verdict is None or verdict.judgement is not Judgement.UNHEALTHY or verdict.needs_probe:
        return None
    if verdict.reason == Layer.SLOWER_THAN_NO_DRAFTING:
        return None  # a matter of load: drafting goes off, the drafter stays
    launched = scene.plan is not None and scene.plan.revision == record.name
    serves = any(status.revision == record.name for _, status in scene.engines)
    return (verdict.reason, verdict.message) if launched or serves else None


def promotable(scene: Scene, record: RevisionRecord) -> bool:
    """Whether a revision serves on all engines, was found healthy, and for long enough."""
    if record.outcome or scene.rollout.paused or not scene.engines:
        return False
    if drafter_ref(record) is None:
        return scene.plan is not None and scene.plan.revision == record.name
    verdict = scene.verdict(record.name)
    healthy = verdict is not None and verdict.judgement is Judgement.HEALTHY
    everywhere = all(status.revision == record.name for _, status in scene.engines)
    return healthy and everywhere and soaked(scene, record)


def soaked(scene: Scene, record: RevisionRecord) -> bool:
    """Whether a revision has served for rollout.minSoakSeconds on the pod that had it first."""
    swaps = [
        seconds(found.swapped_at)
        for _, status in scene.engines
        if (found := living_candidate(status))
        and found.revision == record.name
        and status.revision == record.name
    ]
    since = min((swap for swap in swaps if swap is not None), default=None)
    active = scene.world.server.status.active
    if since is None and active is not None and active.revision == record.name:
        since = seconds(active.since)
    return since is not None and scene.now - since >= scene.rollout.min_soak_seconds


def _needs_restart(scene: Scene, record: RevisionRecord) -> str:
    """Say why the drafter can't be swapped in place, where a restart with it may work."""
    refused = (ended for ended in _ended(scene, record) if ended.reason in NOT_IN_PLACE)
    return next((f"{ended.reason}: {ended.message}" for ended in refused), "")


def _left_behind(scene: Scene, record: RevisionRecord) -> bool:
    """Whether nobody asks for a revision any more that was never judged."""
    launched = scene.plan is not None and scene.plan.revision == record.name
    return record.name not in {scene.desired.name, scene.rollout.pinned_revision} and not launched


def _ended(scene: Scene, record: RevisionRecord) -> Iterator[Candidate]:
    """Yield the ends of this revision's present trial, one for each pod."""
    for pod, status in scene.engines:
        ended = candidate(status, *ENDED)
        if ended is not None and ended.revision == record.name and of_this_trial(ended, pod, record):
            yield ended


def of_this_trial(ended: Candidate, pod: PodView, record: RevisionRecord) -> bool:
    """Whether an end belongs to the trial that began when the record was last written."""
    begun = seconds(record.at)
    if begun is None:
        return True
    ended_at = moment(ended)
    if ended_at is not None:
        return ended_at > begun
    return pod.heard_at is not None and pod.heard_at > begun + HEARD_MARGIN_SECONDS
