"""Blocks without drafting, on a budget, and what follows from them.

Level-based: whether a block is on is read off the clock, so nothing has to be remembered and an operator that
takes over goes on. Where drafting was found not to pay, the blocks are turned round: off, with short blocks of
drafting to see whether it pays again. One engine is measured; what it shows holds for all.
"""

from __future__ import annotations

from specdec.acceptance.baseline import Pace
from specdec.api.v1alpha1 import BaselineMode
from specdec.engine.protocol import Drafting, SetDrafting, Status
from specdec.rollout.aim import Aim
from specdec.rollout.clock import exact, seconds
from specdec.rollout.quarantine import PROMOTED
from specdec.rollout.scene import Scene, living_candidate
from specdec.rollout.world import PodView

BLOCK_SECONDS = 3.0
BLOCK_DEADLINE_SECONDS = 10
"""An engine ends a block by itself after so long: an operator that dies in one costs no more than that."""
PROBATION_PERIOD = 30.0
"""A block in so many seconds: 10 % of the time."""
REST_PERIOD = 300.0
"""A block in so many seconds: 1 % of the time."""
PROBATION_SECONDS = 1800.0
"""How long after its promotion a drafter is on probation."""
SATURATED = 0.8
"""Share of engine.maxRunningRequests in flight from which on no capacity is spent on measuring."""
LOOK_SECONDS = 0.5
"""How often the engine is looked at around a block."""


def measures(scene: Scene, aim: Aim) -> bool:
    """Whether blocks are on: the user wants them, and the promoted drafter serves with nothing else under way."""
    promoted = scene.promoted
    return (
        scene.spec.acceptance.baseline is BaselineMode.MEASURE
        and scene.enforcing
        and scene.drafting_wanted
        and promoted is not None
        and promoted.outcome == PROMOTED
        and aim.record is not None
        and aim.record.name == promoted.name
        and not any(living_candidate(status) for _, status in scene.engines)
    )


def slower_since(scene: Scene, aim: Aim) -> str:
    """Since when drafting is off because it does not pay; "" where it pays or is not known."""
    if not measures(scene, aim) or aim.record is None:
        return ""
    verdict, before = scene.verdict(aim.record.name), scene.world.server.status
    pace = verdict.pace if verdict else Pace.UNKNOWN
    standing = before.slower_since if before.active and before.active.revision == aim.record.name else ""
    if pace is Pace.SLOWER:
        return standing or exact(scene.now)
    return "" if pace is Pace.FASTER else standing


def mode(scene: Scene, aim: Aim, pod: PodView, status: Status) -> SetDrafting:
    """Choose what an engine should do now: draft or not, for good or for a block that ends without us as well."""
    if not measures(scene, aim) or status.revision != status.promoted:
        return SetDrafting(drafting=Drafting.ON)
    within = measured(scene, pod) and seconds_into(scene) < BLOCK_SECONDS
    if slower_since(scene, aim):
        return _block(Drafting.ON) if within else SetDrafting(drafting=Drafting.OFF)
    if within and _worth_a_block(scene, status):
        return _block(Drafting.OFF)
    return SetDrafting(drafting=Drafting.ON)


def _block(drafting: Drafting) -> SetDrafting:
    return SetDrafting(drafting=drafting, for_seconds=BLOCK_DEADLINE_SECONDS)


def measured(scene: Scene, pod: PodView) -> bool:
    """Whether this is the engine that blocks are on."""
    return bool(scene.drafters) and scene.drafters[0][0].name == pod.name


def block_is_why(scene: Scene, aim: Aim) -> bool:
    """Whether an engine may be without drafting for a block only."""
    return measures(scene, aim) and not slower_since(scene, aim)


def next_look(scene: Scene, aim: Aim) -> float | None:
    """Seconds until an engine must be looked at because of a block; None where there are none."""
    if not measures(scene, aim) or not scene.drafters:
        return None
    into = seconds_into(scene)
    if into < BLOCK_SECONDS + 2 * LOOK_SECONDS:
        return LOOK_SECONDS
    return max(LOOK_SECONDS, _period(scene) - into - 2 * LOOK_SECONDS)


def seconds_into(scene: Scene) -> float:
    """Seconds since the last block began."""
    return scene.now % _period(scene)


def _period(scene: Scene) -> float:
    """Seconds between two blocks' beginnings."""
    promoted = scene.promoted
    since = seconds(promoted.at) if promoted else None
    return PROBATION_PERIOD if since and scene.now - since < PROBATION_SECONDS else REST_PERIOD


def _worth_a_block(scene: Scene, status: Status) -> bool:
    """Whether there is traffic to measure and room for it to be slower."""
    return 0 < status.in_flight < SATURATED * scene.spec.engine.max_running_requests
