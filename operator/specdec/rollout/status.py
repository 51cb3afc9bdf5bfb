"""The status as this pass leaves it: stable at rest, numbers moved only when they moved enough to matter."""

from __future__ import annotations

from specdec.acceptance.verdict import Doubt, Verdict
from specdec.api.conditions import Reason
from specdec.api.v1alpha1 import AcceptanceStatus, RevisionStatus, SpecDecodeServerStatus
from specdec.api.words import RolloutWord
from specdec.engine.protocol import CandidateState, Drafting, Probe
from specdec.rollout import preflight
from specdec.rollout.aim import last_good
from specdec.rollout.baseline import drafter_load, warmup
from specdec.rollout.clock import exact
from specdec.rollout.conditions import conditions, most_important, phase
from specdec.rollout.launch import off_in_place, unjudged
from specdec.rollout.pace import slower_since
from specdec.rollout.passing import Pass
from specdec.rollout.quarantine import PROMOTED, REJECTED, entries, rejected
from specdec.rollout.requests import mark
from specdec.rollout.revisions import version
from specdec.rollout.scene import living_candidate
from specdec.rollout.world import RevisionRecord

LEAST_MOVE = 0.1
"""An accept length is shown anew once it moved by this much ..."""
LEAST_NEWS = 32
"""... over at least so many further requests."""


def status(done: Pass) -> SpecDecodeServerStatus:
    """Derive the whole status."""
    scene, before = done.scene, done.before
    shown = acceptance(done)
    found = conditions(done, shown)
    good = last_good(scene.records)
    return SpecDecodeServerStatus(
        observed_generation=scene.world.server.generation,
        phase=phase(found),
        conditions=found,
        replicas=len(scene.world.pods),
        ready_replicas=done.ready,
        selector=f"app.kubernetes.io/name=specdec-engine,app.kubernetes.io/instance={scene.world.server.name}",
        active=_revision(done, done.active, before.active),
        candidate=_revision(done, done.candidate, before.candidate),
        last_good=_revision(done, good, before.last_good),
        acceptance=shown,
        warmup=warmup(done),
        drafter_load=drafter_load(done),
        rollout=word(done),
        reason=most_important(found),
        engine=next((status.engine for _, status in scene.engines), before.engine),
        quarantine=entries(scene.records),
        preflight=preflight.shown(scene),
        drafting_off_since=_off_since(done),
        slower_since=slower_since(scene, done.aim),
        probe_asked=_probe_asked(done),
        last_handled_request=mark(scene.world.request) if done.answer else before.last_handled_request,
        last_answer=done.answer or before.last_answer,
        last_evidence=_last_evidence(done),
    )


def word(done: Pass) -> RolloutWord:
    """Say where the rollout is in one word, for the printer column."""
    scene = done.scene
    states = [found.state for _, status in scene.engines if (found := living_candidate(status)) is not None]
    if states:
        return _of_states(states, paused=scene.rollout.paused)
    if rejected(scene.desired):
        return _of_rejection(scene.desired)
    return _at_rest(done)


def _at_rest(done: Pass) -> RolloutWord:
    scene = done.scene
    if scene.rollout.paused and not done.current:
        return RolloutWord.PAUSED
    if done.restarting:
        return RolloutWord.RESTARTING
    if unjudged(scene, done.aim) is not None:
        return RolloutWord.PREFLIGHT
    if not scene.engines:
        return RolloutWord.STARTING if done.replicas else RolloutWord.IDLE
    if not scene.drafting_wanted:
        return RolloutWord.DRAFTING_OFF
    return RolloutWord.IDLE if done.current or not scene.enforcing else RolloutWord.PENDING


def _of_states(states: list[CandidateState], *, paused: bool) -> RolloutWord:
    for state in (CandidateState.STAGING, CandidateState.SWAPPING, CandidateState.PROBING):
        if state in states:
            return RolloutWord(state.value)
    return RolloutWord.PAUSED if paused else RolloutWord.JUDGING


def _of_rejection(record: RevisionRecord) -> RolloutWord:
    match record.reason:
        case Reason.ABORTED_BY_USER:
            return RolloutWord.ABORTED
        case Reason.UNDONE_BY_USER:
            return RolloutWord.UNDONE
        case (
            "DeadDrafter"
            | "BelowFloor"
            | "WorseThanActive"
            | "DegenerateAnswers"
            | "ProbeFailed"
            | "EngineCrashed"
        ):
            return RolloutWord.ROLLED_BACK
        case _:
            return RolloutWord.REFUSED


def acceptance(done: Pass) -> AcceptanceStatus | None:
    """Show what live traffic shows; the standing figures stay until they say something new."""
    record = done.serving
    verdict = done.scene.verdict(record.name) if record else None
    if record is None or verdict is None:
        return done.before.acceptance if record else None
    fresh = _shown(record, verdict)
    old = done.before.acceptance
    if old is None or old.revision != record.name:
        return fresh
    probed_again = verdict.needs_probe and _reason(old) == Doubt.PROBE_CONTRADICTS
    return old if probed_again or not _news(old, fresh) else fresh


def _shown(record: RevisionRecord, verdict: Verdict) -> AcceptanceStatus:
    length, steps = verdict.accept_length, int(record.data.get("numSteps", 3))
    return AcceptanceStatus(
        revision=record.name,
        accept_length="" if length is None else f"{length:.2f}",
        accept_rate="" if length is None else f"{(length - 1) / steps:.2f}",
        speedup="" if verdict.speedup is None else f"{verdict.speedup:.2f}",
        per_position=tuple(f"{share:.2f}" for share in verdict.per_position),
        requests=verdict.requests,
        verify_calls=verdict.calls,
        verdict=verdict.judgement.value,
        message=f"{verdict.reason}: {verdict.message}",
    )


def _news(old: AcceptanceStatus, fresh: AcceptanceStatus) -> bool:
    """Whether the verdict is another one, or the accept length moved and enough requests stand behind it.

    Too little data is no news: an operator that begins to count again leaves standing what the last one saw. But what
    was said of silent or lying agents is over.
    """
    stands = old.verdict and _reason(old) not in {Doubt.ENGINES_SILENT, Doubt.COUNTERS_IMPOSSIBLE}
    if stands and _reason(fresh) in {Doubt.NO_TRAFFIC, Doubt.INSUFFICIENT_DATA}:
        return False
    if (old.verdict, _reason(old)) != (fresh.verdict, _reason(fresh)):
        return True
    if _moved(old.speedup, fresh.speedup):
        return True
    if not old.accept_length or not fresh.accept_length:
        return old.accept_length != fresh.accept_length
    return _moved(old.accept_length, fresh.accept_length) and abs(fresh.requests - old.requests) >= LEAST_NEWS


def _moved(old: str, fresh: str) -> bool:
    """Whether a shown number moved enough to be shown anew."""
    return bool(fresh) and (not old or abs(float(old) - float(fresh)) >= LEAST_MOVE - 1e-9)


def _reason(shown: AcceptanceStatus) -> str:
    return shown.message.partition(": ")[0]


def _revision(
    done: Pass, record: RevisionRecord | None, before: RevisionStatus | None
) -> RevisionStatus | None:
    """Show a revision; `since` stays as long as it holds its place."""
    if record is None:
        return None
    since = before.since if before and before.revision == record.name else exact(done.scene.now)
    return RevisionStatus(revision=record.name, version=version(record), digest=record.digest, since=since)


def _off_since(done: Pass) -> str:
    """Note since when drafting is off because the spec says so, or no drafter is known to be good."""
    record = done.launched
    off = off_in_place(done.scene, done.aim) or (record is not None and rejected(record))
    if not off or not done.scene.enforcing:
        return ""
    if not done.before.drafting_off_since and not _is_off(done):
        return ""
    return done.before.drafting_off_since or exact(done.scene.now)


def _is_off(done: Pass) -> bool:
    return any(status.drafting is Drafting.OFF for _, status in done.scene.engines)


def _probe_asked(done: Pass) -> str:
    asked = [order.command.id for order in done.commands if isinstance(order.command, Probe)]
    return asked[0] if asked else done.before.probe_asked


def _last_evidence(done: Pass) -> str:
    """Keep the sentence of the verdict that changed something last."""
    changed = [record for record in done.untold if record.outcome in {PROMOTED, REJECTED}]
    if not changed:
        return done.before.last_evidence
    record = changed[-1]
    return f"{version(record)} {record.outcome.lower()}: {record.message or record.reason}"[:1024]
