"""Which engines are compared with which: the memory of the paired layer between passes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

from specdec.acceptance.compare import Arm, Comparison
from specdec.acceptance.judge import Rival
from specdec.acceptance.measure import Key
from specdec.acceptance.routing import Routing
from specdec.acceptance.tally import Tally
from specdec.rollout.quarantine import PROMOTED
from specdec.rollout.revisions import version
from specdec.rollout.scene import living_candidate
from specdec.rollout.world import RevisionRecord, World


class Trial(NamedTuple):
    """One attempt with a candidate, judged under one limit: another one is compared anew."""

    candidate: str
    active: str
    begun: str
    kept: float


@dataclass(frozen=True, slots=True)
class Beside:
    """One server's comparison and what is known of its routing."""

    trial: Trial | None = None
    comparison: Comparison = field(default_factory=lambda: Comparison(3, 0.95))
    routing: Routing = field(default_factory=Routing)

    def fed(self, world: World, done: Mapping[Key, Tally], now: float) -> Beside:
        """Add what engines finished since the last pass."""
        active = world.launch_plan.revision if world.launch_plan else ""
        steps = world.launch_plan.num_steps if world.launch_plan else 3
        theirs = _arms(world, done, active, steps)
        routing = self.routing.fed(theirs, now)
        trial = _trial(world, active)
        if trial is None:
            return Beside(routing=routing)
        comparison = self.comparison if trial == self.trial else Comparison(steps, trial.kept)
        mine = _arms(world, done, trial.candidate, steps)
        return Beside(trial, comparison.fed(_pooled(mine), _pooled(theirs), now), routing)

    def rival(self, world: World, record: RevisionRecord) -> Rival | None:
        """What a revision is compared with; None where it is no candidate."""
        if self.trial is None or self.trial.candidate != record.name:
            return None
        active = next((other for other in world.revisions if other.name == self.trial.active), None)
        if active is None:
            return None
        serves = any(pod.status and pod.status.revision == active.name for pod in world.pods)
        return Rival(version(active), self.comparison, self.routing.dealt, serves=serves)


def _trial(world: World, active: str) -> Trial | None:
    """Find the revision on trial beside a promoted one with the same number of steps."""
    records = {record.name: record for record in world.revisions}
    promoted = records.get(active)
    if promoted is None or promoted.outcome != PROMOTED:
        return None
    living = [living_candidate(pod.status) for pod in world.pods if pod.status]
    found = next((records.get(item.revision) for item in living if item and item.revision != active), None)
    if found is None or found.outcome or found.data.get("numSteps") != promoted.data.get("numSteps"):
        return None
    kept = 1 - float(world.server.spec.acceptance.max_regression)
    return Trial(found.name, active, found.at, kept)


def _arms(world: World, done: Mapping[Key, Tally], revision: str, steps: int) -> Mapping[str, Arm]:
    """What each engine finished that serves this revision now; the others' last requests are of two drafters."""
    return MappingProxyType(
        {
            pod.uid: Arm.of(done.get((pod.uid, revision, steps), Tally()))
            for pod in world.pods
            if pod.status and pod.status.revision == revision and revision and not pod.deleting
        }
    )


def _pooled(arms: Mapping[str, Arm]) -> Arm:
    total = Arm()
    for arm in arms.values():
        total = total.plus(arm)
    return total
