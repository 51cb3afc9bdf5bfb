"""From the agents' counters to verdicts: the memory that one server's judge needs between passes."""

from __future__ import annotations

from dataclasses import dataclass, field

from specdec.acceptance.verdict import Judgement
from specdec.controller import metrics
from specdec.controller.store import Key
from specdec.rollout.evidence import Judge
from specdec.rollout.world import Evidence, World


@dataclass(slots=True)
class LedgerJudge:
    """Judges one server and counts what is said of it."""

    key: Key
    judge: Judge = field(default_factory=Judge)
    _said: dict[str, tuple[Judgement, str]] = field(default_factory=dict)
    _swaps: dict[str, str] = field(default_factory=dict)
    """When each pod last swapped, by UID."""

    def evidence(self, world: World, now: float) -> Evidence:
        """Verdicts by revision."""
        found = self.judge.evidence(world, now)
        self._count(world, found)
        return found

    def _count(self, world: World, found: Evidence) -> None:
        """Count changes of verdicts and swaps in the operator's metrics."""
        for revision, said in found.items():
            now = (said.judgement, said.reason)
            if self._said.get(revision) != now:
                metrics.VERDICTS.labels(*self.key, *now).inc()
        self._said = {revision: (said.judgement, said.reason) for revision, said in found.items()}
        swaps = {
            pod.uid: (candidate.swapped_at, candidate.swap_seconds)
            for pod in world.pods
            if pod.status and (candidate := pod.status.candidate) and candidate.swap_seconds
        }
        for uid, (at, took) in swaps.items():
            if self._swaps.get(uid) != at:
                metrics.SWAP_SECONDS.observe(float(took))
        self._swaps = {uid: at for uid, (at, _) in swaps.items()}
