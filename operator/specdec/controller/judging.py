"""From the agents' counters to verdicts: the memory that one server's judge needs between passes."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from specdec.acceptance.judge import ROLLOUT, STEADY, Case, Floor, verdict
from specdec.acceptance.measure import Ledger, Reading
from specdec.acceptance.verdict import Judgement, Verdict
from specdec.controller import metrics
from specdec.controller.store import Key
from specdec.engine.protocol import ProbeResult
from specdec.rollout.world import Evidence, World

PROBE_AGAIN_SECONDS = 300.0
"""A suspicion that a probe contradicted is probed again after this long."""


@dataclass
class LedgerJudge:
    """Keeps the ledger of counters, and which probe was asked for."""

    key: Key
    ledger: Ledger = field(default_factory=Ledger)
    _probes: dict[str, tuple[str, float]] = field(default_factory=dict)
    """Id and time of the probe that would confirm a suspicion, by revision."""
    _said: dict[str, tuple[Judgement, str]] = field(default_factory=dict)
    _swaps: dict[str, str] = field(default_factory=dict)
    """When each pod last swapped, by UID."""

    def evidence(self, world: World, now: float) -> Evidence:
        """Verdicts by revision."""
        settled = _settled(world)
        readings = [
            Reading(pod.name, pod.status, pod.heard_at)
            for pod in world.pods
            if pod.status is not None and pod.heard_at is not None
        ]
        self.ledger = self.ledger.take(readings, settled)
        names = sorted({reading.status.revision for reading in readings} - {""})
        found = {name: self._verdict(world, name, settled, now) for name in names}
        self._count(world, found)
        return found

    def _verdict(self, world: World, revision: str, settled: frozenset[str], now: float) -> Verdict:
        # What the engines were started with: a spec that asks for other steps has not come true yet.
        steps = world.launch_plan.num_steps if world.launch_plan else world.server.spec.num_steps
        case = Case(
            seen=self.ledger.measure(revision, steps, now),
            floor=Floor.of(world.server.spec.acceptance, steps),
            probes=_probes(world, revision),
            levels=STEADY if revision in settled else ROLLOUT,
            probe_id=self._probe_id(revision, now),
        )
        found = verdict(case)
        if not found.needs_probe or case.probe_id:
            return found
        # A second look: the suspicion is new, and from now on has a probe that would confirm it.
        self._probes[revision] = (f"{revision}@{int(now * 1000)}", now)
        return verdict(replace(case, probe_id=self._probe_id(revision, now)))

    def _probe_id(self, revision: str, now: float) -> str:
        identity, at = self._probes.get(revision, ("", 0.0))
        return identity if now - at < PROBE_AGAIN_SECONDS else ""

    def _count(self, world: World, found: Evidence) -> None:
        """Count changes of verdicts and swaps in the operator's metrics."""
        for revision, said in found.items():
            now = (said.judgement, said.reason)
            if self._said.get(revision) != now:
                metrics.VERDICTS.labels(*self.key, *now).inc()
        self._said = {revision: (said.judgement, said.reason) for revision, said in found.items()}
        for pod in world.pods:
            candidate = pod.status.candidate if pod.status else None
            if candidate is None or not candidate.swap_seconds:
                continue
            if self._swaps.get(pod.uid) != candidate.swapped_at:
                self._swaps[pod.uid] = candidate.swapped_at
                metrics.SWAP_SECONDS.labels(*self.key).observe(float(candidate.swap_seconds))


def _settled(world: World) -> frozenset[str]:
    """Revisions that were promoted: they are judged for ever, over a rolling window."""
    planned = {world.launch_plan.revision} if world.launch_plan else set()
    return frozenset(planned | {pod.status.promoted for pod in world.pods if pod.status})


def _probes(world: World, revision: str) -> tuple[ProbeResult, ...]:
    """Last probes of one drafter, a pod each."""
    said = [pod.status.probe for pod in world.pods if pod.status]
    return tuple(probe for probe in said if probe is not None and probe.revision == revision)
