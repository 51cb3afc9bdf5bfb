"""The launch plan: what a pod starts with. It names the promoted revision, never a candidate."""

from __future__ import annotations

from specdec.api.conditions import Reason
from specdec.api.preflight import Preflight
from specdec.api.v1alpha1 import Engine
from specdec.engine.protocol import Drafting, LaunchPlan
from specdec.rollout.aim import Aim
from specdec.rollout.clock import exact, seconds
from specdec.rollout.preflight import admits, report
from specdec.rollout.quarantine import PROMOTED, rejected
from specdec.rollout.revisions import drafter_ref, model_path, restart_hash
from specdec.rollout.scene import Scene, living_candidate
from specdec.rollout.world import RevisionRecord


def next_plan(scene: Scene, aim: Aim) -> LaunchPlan:
    """Make the launch plan; the standing one's assignment is kept if nothing that a start needs has changed."""
    record = launched(scene, aim)
    standing = scene.plan
    unjudged_yet = standing is not None and standing.drafter is None and not admits(scene, record)
    without = without_drafter(scene, aim) or unjudged_yet
    wished = _rendered(scene, record, without=without, off=starts_off(scene, record, aim))
    if standing is None:
        return wished.model_copy(update={"assignment": 1, "written_at": exact(scene.now)})
    kept = wished.model_copy(update={"assignment": standing.assignment, "written_at": standing.written_at})
    if _start(kept) == _start(standing):
        return kept
    said = [pod.status.assignment for pod in scene.world.pods if pod.status]
    return wished.model_copy(
        update={"assignment": max([standing.assignment, *said]) + 1, "written_at": exact(scene.now)}
    )


def launched(scene: Scene, aim: Aim) -> RevisionRecord:
    """Choose the revision that engines start with."""
    promoted = scene.promoted
    if promoted is None:
        return aim.record or scene.desired
    if aim.record is None or aim.record.name == promoted.name:
        return promoted
    now = at_once(scene, aim, aim.record, promoted) and admits(scene, aim.record)
    return aim.record if now else promoted


def held(scene: Scene, aim: Aim) -> bool:
    """Whether nothing is created yet: there is no plan, and the first one waits for a preflight or is refused by it."""
    return scene.plan is None and not admits(scene, aim.record or scene.desired)


def unjudged(scene: Scene, aim: Aim) -> RevisionRecord | None:
    """Find the revision that engines would be started with, were it judged: a Job has to do it."""
    record, promoted = aim.record, scene.promoted
    if record is None or admits(scene, record) or report(scene, record) is not None:
        return None
    if promoted is None or scene.plan is None:
        return record
    if record.name == promoted.name:
        return record if scene.plan.drafter is None else None
    return record if at_once(scene, aim, record, promoted) else None


def order(scene: Scene, record: RevisionRecord) -> LaunchPlan:
    """What a preflight's Job gets to judge: the start as it would be."""
    return _rendered(scene, record, without=False, off=False).model_copy(update={"public_keys": ()})


def at_once(scene: Scene, aim: Aim, record: RevisionRecord, promoted: RevisionRecord) -> bool:
    """Whether a revision becomes the one to start with before it is judged: nothing safer can be done."""
    if record.outcome == PROMOTED or aim.pinned:
        return True  # judged before, or a person's will
    if scene.rollout.paused:
        return False
    if restart_hash(record.data) != restart_hash(promoted.data) or record.reason == Reason.NEEDS_RESTART:
        return True  # a restart has no candidate
    never_served = not scene.ever_served and promoted.outcome != PROMOTED
    no_drafters = bool(scene.engines) and not scene.drafters
    return never_served or no_drafters


def starts_off(scene: Scene, record: RevisionRecord, aim: Aim) -> bool:
    """Whether a start should not draft: the user's will, or no drafter is known to be good."""
    return not scene.drafting_wanted or aim.record is None or rejected(record)


def off_in_place(scene: Scene, aim: Aim) -> bool:
    """Whether drafting should be off on engines that have a drafter."""
    return not scene.drafting_wanted or aim.record is None


def without_drafter(scene: Scene, aim: Aim) -> bool:
    """Whether engines should start without speculative arguments: where off in place is slow, it is a bridge, not a destination."""
    if not off_in_place(scene, aim):
        return False
    standing = scene.plan
    if standing is None or standing.drafter is None:
        return True
    since = seconds(scene.world.server.status.drafting_off_since)
    limit = scene.rollout.fallback_restart_seconds
    on_trial = any(living_candidate(status) for _, status in scene.engines)
    slow = any(status.max_steps and not status.plain for _, status in scene.engines)
    overdue = bool(limit) and since is not None and scene.now - since >= limit
    return overdue and slow and not on_trial and scene.enforcing


def _rendered(scene: Scene, record: RevisionRecord, *, without: bool, off: bool) -> LaunchPlan:
    target = record.data["target"]
    engine = scene.spec.engine
    return LaunchPlan(
        assignment=0,
        server=f"{scene.world.server.namespace}/{scene.world.server.name}",
        revision=record.name,
        target_path=model_path(target["model"]),
        served_name=target["servedName"],
        drafter=None if without else drafter_ref(record),
        num_steps=int(record.data["numSteps"]),
        drafting=Drafting.OFF if off else Drafting.ON,
        preflight=scene.spec.preflight,
        arguments=arguments(record),
        warmup_seconds=engine.warmup_seconds,
        stall_seconds=engine.stall_seconds,
        drain_seconds=engine.drain_timeout_seconds,
        public_keys=scene.world.settings.public_keys,
    )


def arguments(record: RevisionRecord) -> tuple[str, ...]:
    """Render the revision's engine inputs as SGLang's arguments."""
    engine = Engine.model_validate(record.data["engine"])
    wanted = {
        "--tp-size": engine.tensor_parallel if engine.tensor_parallel > 1 else None,
        "--context-length": engine.context_length,
        "--max-running-requests": engine.max_running_requests,
        "--max-total-tokens": engine.max_total_tokens,
        "--mem-fraction-static": engine.mem_fraction_static,
        "--reasoning-parser": engine.reasoning_parser,
        "--tool-call-parser": engine.tool_call_parser,
    }
    switches = ("--trust-remote-code",) if engine.trust_remote_code else ()
    named = (part for name, value in wanted.items() if value is not None for part in (name, str(value)))
    return (*switches, *named)


def _start(plan: LaunchPlan) -> LaunchPlan:
    """Keep what decides how an engine starts: keys, deadlines and the preflight may change under one assignment."""
    free = {"public_keys": (), "warmup_seconds": 0, "stall_seconds": 0, "drain_seconds": 0}
    return plan.model_copy(update={**free, "preflight": Preflight()})
