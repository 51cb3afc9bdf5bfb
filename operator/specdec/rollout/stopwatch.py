"""Which engine's blocks are timed: the memory of the baseline between passes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from specdec.acceptance.baseline import Baseline, Pace, Stretch
from specdec.acceptance.measure import Key
from specdec.acceptance.tally import Tally
from specdec.acceptance.verdict import Judgement, Layer, Verdict
from specdec.api.v1alpha1 import BaselineMode
from specdec.engine.protocol import Drafting, Phase
from specdec.rollout.scene import ordinal
from specdec.rollout.world import PodView, RevisionRecord, World

Watched = tuple[str, str, str]
"""Pod UID, revision, and since when drafting is off because it did not pay: a decision begins a new count."""


@dataclass(frozen=True, slots=True)
class Stopwatch:
    """The baseline of one server's active drafter."""

    watched: Watched = ("", "", "")
    baseline: Baseline = field(default_factory=Baseline)

    def fed(self, world: World, done: Mapping[Key, Tally]) -> Stopwatch:
        """Add what the measured engine did since the last pass."""
        pod = _measured(world)
        if pod is None or pod.status is None or world.launch_plan is None:
            return Stopwatch()
        watched = (pod.uid, pod.status.revision, world.server.status.slower_since)
        baseline = self.baseline if watched == self.watched else Baseline()
        with_, without = (
            done.get((pod.uid, pod.status.revision, steps), Tally())
            for steps in (world.launch_plan.num_steps, 0)
        )
        return Stopwatch(
            watched,
            baseline.fed(
                drafts=pod.status.drafting is Drafting.ON,
                on=Stretch(with_.tokens, with_.request_seconds),
                off=Stretch(without.tokens, without.request_seconds),
            ),
        )

    def judged(self, world: World, record: RevisionRecord, said: Verdict) -> Verdict:
        """Add to a verdict what drafting is worth."""
        factor = float(world.server.spec.acceptance.off_factor)
        speedup = self.baseline.speedup(factor)
        standing = world.server.status.slower_since
        if record.name != self.watched[1] or (speedup is None and not standing):
            return said
        pace = self.baseline.pace(factor)
        said = replace(said, speedup=speedup, pace=pace)
        slower = pace is Pace.SLOWER or (bool(standing) and pace is not Pace.FASTER)
        if said.judgement is Judgement.UNHEALTHY or not slower:
            return said
        message = self._sentence(speedup, factor)
        return replace(
            said,
            judgement=Judgement.UNHEALTHY,
            reason=Layer.SLOWER_THAN_NO_DRAFTING.value,
            message=message,
        )

    def _sentence(self, speedup: float | None, factor: float) -> str:
        if speedup is None:
            return "drafting did not pay; it is tried again in short blocks"
        against = "with drafting off, which flatters" if factor == 1 else "of a server without a drafter"
        return f"{speedup:.2f} x the speed {against}, over {len(self.baseline.pairs)} pairs of blocks"


def _measured(world: World) -> PodView | None:
    """Find the first engine with a drafter, where the user wants a baseline."""
    if world.server.spec.acceptance.baseline is not BaselineMode.MEASURE:
        return None
    engines = [
        pod
        for pod in world.pods
        if pod.status and pod.status.phase is Phase.SERVING and pod.status.max_steps and not pod.deleting
    ]
    return min(engines, key=lambda pod: ordinal(pod.name), default=None)
