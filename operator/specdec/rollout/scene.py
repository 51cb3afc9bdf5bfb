"""One pass's view of a server: the world, the verdicts, and the records as this pass leaves them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from specdec.acceptance.verdict import Judgement, Verdict
from specdec.api.v1alpha1 import DraftingMode, Mode, RolloutSettings, SpecDecodeServerSpec
from specdec.engine.protocol import Candidate, CandidateState, LaunchPlan, Phase, Status
from specdec.rollout.clock import seconds
from specdec.rollout.world import Evidence, PodView, RevisionRecord, World

SILENT_SECONDS = 30.0
"""What an agent said longer ago is not acted upon."""

UNDER_WAY = (CandidateState.STAGING, CandidateState.SWAPPING, CandidateState.PROBING)
ENDED = (CandidateState.REFUSED, CandidateState.SWAPPED_BACK)


@dataclass(frozen=True)
class Scene:
    """What every rule of the planner looks at."""

    world: World
    evidence: Evidence
    now: float
    records: tuple[RevisionRecord, ...]
    desired: RevisionRecord
    """The revision that the spec asks for."""

    @property
    def spec(self) -> SpecDecodeServerSpec:
        """The user's wish."""
        return self.world.server.spec

    @property
    def rollout(self) -> RolloutSettings:
        """How the user wants rollouts to go."""
        return self.spec.rollout

    @property
    def plan(self) -> LaunchPlan | None:
        """The launch plan that stands."""
        return self.world.launch_plan

    @property
    def enforcing(self) -> bool:
        """Whether commands are sent and verdicts acted upon."""
        return self.spec.mode is Mode.ENFORCE

    @property
    def drafting_wanted(self) -> bool:
        """Whether the user lets engines draft."""
        return self.spec.drafting is DraftingMode.AUTO

    @property
    def promoted(self) -> RevisionRecord | None:
        """The record of the revision that engines start with."""
        return self.record(self.plan.revision) if self.plan else None

    def record(self, name: str) -> RevisionRecord | None:
        """Look a revision up."""
        return next((record for record in self.records if record.name == name), None)

    def verdict(self, name: str) -> Verdict | None:
        """Look a verdict up."""
        return self.evidence.get(name)

    def unhealthy(self, name: str) -> bool:
        """Whether a revision is found bad or suspected to be."""
        verdict = self.verdict(name)
        return verdict is not None and verdict.judgement is Judgement.UNHEALTHY

    @cached_property
    def engines(self) -> tuple[tuple[PodView, Status], ...]:
        """Pods that serve and whose agent was heard lately, by name: those that take commands."""
        return tuple(
            (pod, pod.status)
            for pod in sorted(self.world.pods, key=lambda pod: ordinal(pod.name))
            if pod.status and not pod.deleting and pod.status.phase is Phase.SERVING and self.heard(pod)
        )

    @cached_property
    def drafters(self) -> tuple[tuple[PodView, Status], ...]:
        """Engines that were started with speculative arguments."""
        return tuple((pod, status) for pod, status in self.engines if status.max_steps > 0)

    def heard(self, pod: PodView) -> bool:
        """Whether the agent spoke lately."""
        # Who asks the agents tells of silence: it is no deadline.
        return pod.heard_at is not None and float(self.now) - pod.heard_at <= SILENT_SECONDS

    @property
    def ever_served(self) -> bool:
        """Whether any pod of today was ever ready."""
        return any(pod.ready or pod.was_ready for pod in self.world.pods)


def candidate(status: Status, *states: CandidateState) -> Candidate | None:
    """Take the pod's candidate, if it is in one of these states."""
    return status.candidate if status.candidate and status.candidate.state in states else None


def living_candidate(status: Status) -> Candidate | None:
    """Take the pod's candidate, if it is on its way or serves unpromoted."""
    return candidate(status, *UNDER_WAY, CandidateState.SERVING)


def moment(candidate: Candidate) -> float | None:
    """When something last happened to a candidate, as far as the agent says."""
    times = (candidate.back_at, candidate.refused_at, candidate.swapped_at)
    return next((at for time in times if (at := seconds(time)) is not None), None)


def ordinal(pod: str) -> int:
    """Ordinal of a StatefulSet's pod."""
    tail = pod.rpartition("-")[2]
    return int(tail) if tail.isdigit() else 0
