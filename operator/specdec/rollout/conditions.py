"""The conditions, each derived by one function from what a pass decided."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from specdec.acceptance.verdict import Doubt, Judgement
from specdec.api.base import Condition
from specdec.api.conditions import ConditionType, Reason, find, settle
from specdec.api.v1alpha1 import AcceptanceStatus
from specdec.api.words import ServerPhase
from specdec.engine.protocol import CandidateState, Drafting, Phase
from specdec.rollout import preflight
from specdec.rollout.clock import seconds, text
from specdec.rollout.evidence import probe_answered
from specdec.rollout.launch import unjudged
from specdec.rollout.outcomes import of_this_trial
from specdec.rollout.pace import block_is_why
from specdec.rollout.passing import Pass
from specdec.rollout.preflight import Said
from specdec.rollout.quarantine import rejected
from specdec.rollout.revisions import drafter_ref, version
from specdec.rollout.scene import UNDER_WAY, candidate
from specdec.rollout.world import RevisionRecord

ROLLING = (Reason.SWAPPING, Reason.JUDGING, Reason.WAITING_FOR_TRAFFIC, Reason.ROLLING_OUT)
"""Reasons of Reconciling to which rollout.progressDeadlineSeconds applies; a slow start has its own deadline."""

WAITS: Mapping[str, str] = {
    Doubt.NO_TRAFFIC: "waits for users' requests to be judged by; `promote` keeps it without",
    Doubt.INSUFFICIENT_DATA: "waits for more users' requests to be judged by; `promote` keeps it without",
    Doubt.NEAR_FLOOR: "is below its floor so far, which chance can explain: more requests decide",
    Doubt.NEAR_ACTIVE: "is behind the active drafter so far, which chance can explain: more requests decide",
    Doubt.STICKY_ROUTING: "is behind the active drafter, as are engines with equal drafters: requests dealt evenly decide",
    Doubt.ROUTING_UNCHECKED: "is behind the active drafter, but how requests are dealt is not known yet: more minutes of traffic decide",
    Doubt.ENGINES_SILENT: "can't be judged while no agent answers",
    Doubt.COUNTERS_IMPOSSIBLE: "can't be judged while an engine's counters contradict each other",
    Doubt.PROBE_CONTRADICTS: "looks bad on users' requests but good on the agent's own: other requests, `promote` or `undo` decide",
}
"""What a candidate waits for that is not judged yet, and what ends it."""
SUSPECTED = "looks bad on users' requests: the agent's own, which are asked for, decide"
LEFT_OPEN = "looks bad on users' requests, and the agent's own leave it open: more of both, `promote` or `undo` decide"

REFUSALS = (Reason.DRAFTER_REJECTED, Reason.DRAFTER_QUARANTINED)


def conditions(done: Pass, shown: AcceptanceStatus | None) -> tuple[Condition, ...]:
    """Derive all conditions; a time changes only with its status."""
    moving = reconciling(done)
    said: dict[ConditionType, Said] = {
        ConditionType.READY: ready(done),
        ConditionType.DRAFTER_CURRENT: drafter_current(done),
        ConditionType.RECONCILING: moving,
        ConditionType.STALLED: stalled(done, moving),
        ConditionType.ACCEPTANCE_HEALTHY: acceptance_healthy(shown),
        ConditionType.PREFLIGHT_PASSED: preflight_passed(done),
    }
    return tuple(
        settle(_condition(done, type_, *words), done.before.conditions) for type_, words in said.items()
    )


def ready(done: Pass) -> Said:
    """Say whether the wanted engines serve; one of several may be missing, as while they restart."""
    ready_now, wanted = done.ready, done.replicas
    count = f"{ready_now} of {wanted} engines serve"
    if not wanted:
        return "True", Reason.SCALED_TO_ZERO, "no engines are wanted"
    if ready_now < max(1, wanted - 1):
        finding = done.finding
        reason = finding.reason if finding else _start_reason(done)
        return "False", reason, f"{count}; {finding.message if finding else _starting(done)}"
    off = any(status.drafting is Drafting.OFF for _, status in done.scene.engines)
    if off and not block_is_why(done.scene, done.aim):
        return "True", Reason.SERVING_WITHOUT_DRAFTING, f"{count}, without drafting"
    return "True", Reason.SERVING, count


def drafter_current(done: Pass) -> Said:
    """Say whether the spec's drafter is the one that serves, and if not, why."""
    scene, desired = done.scene, done.scene.desired
    if done.finding is not None and done.finding.blocks:
        return "False", done.finding.reason, done.finding.message
    if rejected(desired):
        return "False", _refusal(done), f"{_was_rejected(desired)}: {desired.message}"
    if drafter_ref(desired) is None:
        return "True", Reason.NO_DRAFTER, "the spec names no drafter"
    if not scene.drafting_wanted:
        return "False", Reason.DRAFTING_OFF, "the spec says drafting: Off"
    if done.current:
        return "True", Reason.ACTIVE, f"{version(desired)} serves on all engines"
    return _held(done) or _on_its_way(done)


def _held(done: Pass) -> Said | None:
    """Say what a person holds the rollout by."""
    scene, name = done.scene, version(done.scene.desired)
    pinned = scene.rollout.pinned_revision
    if pinned and pinned != scene.desired.name:
        return "False", Reason.PINNED, f"rollout.pinnedRevision is {pinned}"
    if not scene.enforcing and scene.engines:
        return "False", Reason.OBSERVING, f"mode is Observe: {name} is not rolled out"
    if scene.rollout.paused and scene.engines:
        return "False", Reason.PAUSED, f"rollout.paused holds the rollout of {name}"
    return None


def _on_its_way(done: Pass) -> Said:
    if not done.replicas:
        return (
            "False",
            Reason.SCALED_TO_ZERO,
            f"no engines are wanted; the next one takes {version(done.scene.desired)}",
        )
    if unjudged(done.scene, done.aim) is not None:
        message = f"{version(done.scene.desired)} is judged before an engine starts with it"
        return "False", Reason.PREFLIGHT_PENDING, message
    if not done.scene.engines:
        return "False", _start_reason(done), _starting(done)
    return "False", Reason.ROLLING_OUT, f"{version(done.scene.desired)} is being rolled out"


def reconciling(done: Pass) -> Said:
    """Say what is under way."""
    scene = done.scene
    if done.ready < done.replicas:
        return "True", Reason.ENGINES_STARTING, _starting(done)
    if done.restarting:
        return "True", Reason.RESTARTING, "engines restart one at a time"
    if not done.replicas:
        return "False", Reason.SCALED_TO_ZERO, "no engines are wanted"
    found = done.candidate
    if found is not None:
        return "True", *_trial(done, found)
    _, reason, message = drafter_current(done)
    if reason in {Reason.ROLLING_OUT, Reason.PREFLIGHT_PENDING}:
        return "True", reason, message
    return "False", Reason.AS_WISHED, "nothing is left to do" if scene.engines else "no engine serves"


def stalled(done: Pass, moving: Said) -> Said:
    """Say what only a person can mend."""
    if done.finding is not None:
        return "True", done.finding.reason, done.finding.message
    desired = done.scene.desired
    if rejected(desired):
        return "True", _refusal(done), f"{_was_rejected(desired)}: {desired.message}"
    if unable := _unable(done):
        return "True", Reason.CANDIDATE_NOT_STARTED, unable
    status, reason, message = moving
    if status == "True" and reason in ROLLING and not done.scene.rollout.paused and _overdue(done):
        limit = done.scene.rollout.progress_deadline_seconds
        return "True", Reason.PROGRESS_DEADLINE_EXCEEDED, f"no progress for {limit} s: {message}"
    return "False", Reason.PROGRESSING, ""


def acceptance_healthy(shown: AcceptanceStatus | None) -> Said:
    """Say what the judge says of the drafter that serves."""
    if shown is None:
        return "Unknown", Doubt.NO_TRAFFIC, "no drafter serves"
    reason, _, message = shown.message.partition(": ")
    match shown.verdict:
        case Judgement.HEALTHY:
            return "True", reason, message
        case Judgement.UNHEALTHY:
            return "False", reason, message
        case _:
            return "Unknown", reason, message


def preflight_passed(done: Pass) -> Said:
    """Say what the preflight found of the spec's drafter, or why it did not run."""
    status, reason, message = preflight.passed(done.scene)
    if reason == Reason.PREFLIGHT_PENDING and done.finding is not None:
        return status, done.finding.reason, done.finding.message
    return status, reason, message


def most_important(found: Sequence[Condition]) -> str:
    """Choose the reason for the printer column."""
    by_type = {condition.type: condition for condition in found}
    wrong = [
        (ConditionType.STALLED, "True"),
        (ConditionType.READY, "False"),
        (ConditionType.DRAFTER_CURRENT, "False"),
        (ConditionType.ACCEPTANCE_HEALTHY, "False"),
    ]
    for type_, status in wrong:
        if by_type[type_].status == status:
            return by_type[type_].reason
    return by_type[ConditionType.READY].reason


def phase(found: Sequence[Condition]) -> ServerPhase:
    """Derive one word for people."""
    status = {condition.type: condition.status for condition in found}
    if status[ConditionType.READY] != "True":
        return ServerPhase.FAILED if status[ConditionType.STALLED] == "True" else ServerPhase.STARTING
    if status[ConditionType.STALLED] == "True":
        return ServerPhase.DEGRADED
    return ServerPhase.ROLLING_OUT if status[ConditionType.RECONCILING] == "True" else ServerPhase.SERVING


def _condition(done: Pass, type_: ConditionType, status: str, reason: str, message: str) -> Condition:
    return Condition(
        type=type_.value,
        status=status,
        observed_generation=done.scene.world.server.generation,
        last_transition_time=text(done.scene.now),
        reason=str(reason),
        message=message[:1024],
    )


def _refusal(done: Pass) -> Reason:
    """Tell a drafter that was tried for this spec from one that was refused without another trial."""
    desired = done.scene.desired
    if desired.reason == Reason.QUARANTINED:
        return Reason.DRAFTER_QUARANTINED
    before = find(done.before.conditions, ConditionType.DRAFTER_CURRENT)
    known = any(record.name == desired.name and rejected(record) for record in done.scene.world.revisions)
    if before is None or not known:
        return Reason.DRAFTER_REJECTED
    if before.reason in REFUSALS and before.message.startswith(_was_rejected(desired)):
        return Reason(before.reason)
    same_spec = before.observed_generation == done.scene.world.server.generation
    return Reason.DRAFTER_REJECTED if same_spec else Reason.DRAFTER_QUARANTINED


def _was_rejected(record: RevisionRecord) -> str:
    return f"{version(record)} was rejected"


def _start_reason(done: Pass) -> Reason:
    """Say what the first start waits for."""
    if done.plan is not None:
        return Reason.ENGINES_STARTING
    return Reason.PREFLIGHT_PENDING if unjudged(done.scene, done.aim) else Reason.PREFLIGHT_BLOCKED


def _starting(done: Pass) -> str:
    """Say how far each engine is that does not serve yet."""
    if done.plan is None and not done.findings:
        name = version(done.scene.desired)
        waits = f"{name} is judged before an engine starts with it"
        return (
            waits if unjudged(done.scene, done.aim) else f"the preflight blocks {name}: no engine is started"
        )
    waiting = [pod for pod in done.scene.world.pods if not pod.ready]
    if not waiting:
        return "engines are being created"
    return ", ".join(
        f"{pod.name} is {pod.status.phase if pod.status else pod.waiting_reason or 'Pending'}"
        for pod in sorted(waiting, key=lambda pod: pod.name)[:4]
    )


def _trial(done: Pass, found: RevisionRecord) -> tuple[Reason, str]:
    """Say where a candidate stands."""
    name = version(found)
    if any(candidate(status, *UNDER_WAY) for _, status in done.scene.engines):
        return Reason.SWAPPING, f"{name} is swapped in"
    verdict = done.scene.verdict(found.name)
    if verdict is not None and verdict.needs_probe:
        answered = probe_answered(done.scene.world, found.name, done.scene.now)
        return Reason.JUDGING, f"{name} serves and {LEFT_OPEN if answered else SUSPECTED}"
    doubt = verdict.reason if verdict is not None else ""
    waits = doubt in {Doubt.NO_TRAFFIC, Doubt.INSUFFICIENT_DATA}
    reason = Reason.WAITING_FOR_TRAFFIC if waits else Reason.JUDGING
    return reason, f"{name} serves and {WAITS.get(doubt, 'is being judged')}"


def _unable(done: Pass) -> str:
    """Say why an engine could not take the candidate, where that was not the drafter's fault."""
    scene = done.scene
    aimed = done.aim.record
    if aimed is None or aimed.reason == Reason.NEEDS_RESTART:
        return ""  # its restart brings the drafter
    for pod, status in scene.engines:
        ended = candidate(status, CandidateState.REFUSED)
        if ended is None or ended.revision != aimed.name:
            continue
        # What may still be of an earlier trial is no verdict yet, and must be no trouble either.
        if of_this_trial(ended, pod, aimed) and not done.current and status.phase is Phase.SERVING:
            return f"{pod.name}: {ended.reason}: {ended.message}"
    return ""


def _overdue(done: Pass) -> bool:
    """Whether a rollout has been under way for longer than its deadline."""
    before = find(done.before.conditions, ConditionType.RECONCILING)
    if before is None or before.status != "True" or before.reason not in ROLLING:
        return False
    swaps = [
        seconds(status.candidate.swapped_at) or 0.0 for _, status in done.scene.engines if status.candidate
    ]
    since = max([seconds(before.last_transition_time) or done.scene.now, *swaps])
    return done.scene.now - since >= done.scene.rollout.progress_deadline_seconds
