"""Commands to agents: swap, confirm, promote, roll back, drafting on and off, probe.

Every rule looks at one pod's status and the aim. A command that was taken shows in the next status, so none
needs to be remembered; only a probe's id is, in the server's status.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from specdec.acceptance.verdict import Judgement
from specdec.api.conditions import ConditionType, Reason, find
from specdec.engine.protocol import (
    CandidateState,
    Command,
    Confirm,
    DrafterRef,
    Drafting,
    LaunchPlan,
    Probe,
    Promote,
    Rollback,
    SetDrafting,
    Status,
    Swap,
)
from specdec.rollout import pace
from specdec.rollout.aim import Aim
from specdec.rollout.clock import seconds
from specdec.rollout.evidence import probe_answered, probe_due, probe_id
from specdec.rollout.launch import off_in_place
from specdec.rollout.outcomes import of_this_trial, soaked
from specdec.rollout.quarantine import rejected
from specdec.rollout.restarts import outdated
from specdec.rollout.revisions import drafter_ref
from specdec.rollout.scene import ENDED, UNDER_WAY, Scene, candidate, living_candidate, moment
from specdec.rollout.world import AgentCommand, PodView, RevisionRecord

RETRY_SECONDS = 30.0
"""A candidate that ended through no fault of its own is tried again after this long."""


@dataclass(frozen=True)
class Rollout:
    """What the rules for one pod need to know of the whole."""

    scene: Scene
    aim: Aim
    plan: LaunchPlan
    """The launch plan of this pass."""
    chosen: frozenset[str]
    """Pods that may be swapped."""


def commands(scene: Scene, aim: Aim, plan: LaunchPlan) -> tuple[AgentCommand, ...]:
    """Decide what every agent is told in this pass; in Observe mode nothing."""
    if not scene.enforcing:
        return ()
    rollout = Rollout(scene, aim, plan, chosen_pods(scene, aim, plan))
    told = [
        AgentCommand(pod.name, command)
        for pod, status in scene.drafters
        for command in _told(rollout, pod, status)
    ]
    probed = next((order.command.revision for order in told if isinstance(order.command, Probe)), "")
    return tuple(
        order for order in told if not isinstance(order.command, Probe) or order.command.revision == probed
    )


def chosen_pods(scene: Scene, aim: Aim, plan: LaunchPlan) -> frozenset[str]:
    """Choose the pods that may be swapped: one first, the rest once it is found healthy there."""
    record = aim.record
    pods = [pod.name for pod, _ in scene.drafters]
    if record is None or plan.revision == record.name:
        return frozenset(pods)
    carriers = [pod.name for pod, status in scene.drafters if carries(status, record)]
    verdict = scene.verdict(record.name)
    healthy = verdict is not None and verdict.judgement is Judgement.HEALTHY
    if carriers and healthy and soaked(scene, record):
        return frozenset(pods)
    return frozenset((carriers or pods)[:1])


def carries(status: Status, record: RevisionRecord) -> bool:
    """Whether a revision is a living candidate on a pod."""
    found = living_candidate(status)
    return found is not None and found.revision == record.name


def _told(rollout: Rollout, pod: PodView, status: Status) -> Iterator[Command]:
    """Tell one pod what brings it nearer to the aim; traffic is made safe first."""
    record = rollout.aim.record
    if off_in_place(rollout.scene, rollout.aim) or record is None:
        yield from _switched_off(status)
        return
    ref = drafter_ref(record)
    if ref is None:
        yield from _taken_back(rollout.scene, status, Reason.SUPERSEDED)
        return
    yield from _aligned(rollout, pod, status, record, ref)
    order = pace.mode(rollout.scene, rollout.aim, pod, status)
    if order.drafting is Drafting.OFF:
        yield from _in_mode(status, order)
        return
    yield from _switched_on(rollout.scene, status, order)
    yield from _probed(rollout.scene, status)


def _switched_off(status: Status) -> Iterator[Command]:
    """Stop drafting, and leave a candidate: it can't be judged without drafting."""
    yield from _in_mode(status, SetDrafting(drafting=Drafting.OFF))
    found = living_candidate(status)
    if found is not None:
        yield Rollback(revision=found.revision, reason=Reason.DRAFTING_OFF)


def _in_mode(status: Status, order: SetDrafting) -> Iterator[Command]:
    """Order a mode unless it is in force, for a while if it is ordered for a while."""
    if status.drafting is not order.drafting or bool(status.drafting_until) != bool(order.for_seconds):
        yield order


def _switched_on(scene: Scene, status: Status, order: SetDrafting) -> Iterator[Command]:
    """Draft again, unless what serves is known to be bad: then a swap comes first."""
    wrong = bool(status.revision) and any(_in_mode(status, order))
    if not wrong or rejected(scene.record(status.revision)) or candidate(status, *UNDER_WAY):
        return
    if not _found_dead(status):
        yield order
    elif probe_due(scene.world, status.revision, scene.now):
        yield SetDrafting(drafting=Drafting.ON)
        yield Probe(id=probe_id(status.revision, scene.now), revision=status.revision)


def _found_dead(status: Status) -> bool:
    """Whether the agent itself keeps the drafter off that it started with: only a passed probe ends that."""
    return status.reason == "DeadDrafter" and status.revision == status.promoted


def _probed(scene: Scene, status: Status) -> Iterator[Command]:
    """Ask for a probe where live traffic looks bad: traffic alone moves nothing."""
    verdict = scene.verdict(status.revision)
    suspected = verdict is not None and verdict.needs_probe
    if suspected and probe_due(scene.world, status.revision, scene.now):
        yield Probe(id=probe_id(status.revision, scene.now), revision=status.revision)


def _aligned(
    rollout: Rollout, pod: PodView, status: Status, record: RevisionRecord, ref: DrafterRef
) -> Iterator[Command]:
    """Bring the aimed revision to serve on this pod, and anything else to leave."""
    found = living_candidate(status)
    if found is not None and found.revision == record.name:
        yield from _carried_on(rollout, status, record)
    elif status.promoted == record.name and found is not None:
        yield _back(rollout.scene, found.revision)
    elif status.revision == record.name:
        if rollout.plan.revision == record.name and status.promoted != record.name:
            yield Promote(revision=record.name)
    elif _may_swap(rollout, pod, status, record):
        yield _swap(rollout.scene, ref)  # takes the place of another candidate directly
    else:
        yield from _taken_back(rollout.scene, status, Reason.SUPERSEDED)


def _carried_on(rollout: Rollout, status: Status, record: RevisionRecord) -> Iterator[Command]:
    """Promote, or keep alive, a candidate that is the aim."""
    serves = status.revision == record.name
    if rollout.plan.revision == record.name:
        if candidate(status, CandidateState.SERVING) and serves:
            yield Promote(revision=record.name)
        return
    scene = rollout.scene
    # A suspicion that no probe answers ends by the dead-man switch; one that a probe left open is no reason to go.
    doubted = scene.unhealthy(record.name) and not probe_answered(scene.world, record.name, scene.now)
    if serves and not doubted:
        yield Confirm(revision=record.name, within_seconds=scene.rollout.confirm_within_seconds)


def _taken_back(scene: Scene, status: Status, why: Reason) -> Iterator[Command]:
    """Roll a candidate back that is not the aim; its rejection is the reason, if there is one."""
    found = living_candidate(status)
    if found is not None:
        yield _back(scene, found.revision, why)


def _back(scene: Scene, revision: str, why: Reason = Reason.SUPERSEDED) -> Rollback:
    record = scene.record(revision)
    reason = record.reason if record is not None and rejected(record) else why
    return Rollback(revision=revision, reason=reason)


def _swap(scene: Scene, ref: DrafterRef) -> Swap:
    within = scene.rollout.confirm_within_seconds
    return Swap(drafter=ref, confirm_within_seconds=within, preflight=scene.spec.preflight)


def _may_swap(rollout: Rollout, pod: PodView, status: Status, record: RevisionRecord) -> bool:
    """Whether a swap may begin on this pod now."""
    scene = rollout.scene
    settled = rollout.plan.revision == record.name
    if pod.name not in rollout.chosen or (scene.rollout.paused and not settled):
        return False
    if outdated(pod, record) or record.reason == Reason.NEEDS_RESTART:
        return False  # its restart brings the drafter
    ended = candidate(status, *ENDED)
    if ended is None or ended.revision != record.name or not of_this_trial(ended, pod, record):
        return True
    stalled = find(scene.world.server.status.conditions, ConditionType.STALLED)
    waiting_since = moment(ended) or (
        seconds(stalled.last_transition_time) if stalled and stalled.status == "True" else scene.now
    )
    return scene.now - (waiting_since or scene.now) >= RETRY_SECONDS
