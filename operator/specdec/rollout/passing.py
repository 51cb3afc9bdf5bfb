"""Everything that one pass decided, before it is put into words: status and events are derived from it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from specdec.api.v1alpha1 import SpecDecodeServerStatus
from specdec.engine.protocol import LaunchPlan
from specdec.rollout.aim import Aim
from specdec.rollout.inputs import Finding
from specdec.rollout.scene import Scene, living_candidate
from specdec.rollout.world import AgentCommand, RevisionRecord


@dataclass(frozen=True)
class Pass:
    """One pass's decisions."""

    scene: Scene
    """With the records as this pass leaves them."""
    aim: Aim
    plan: LaunchPlan | None
    """The launch plan of this pass; None while bad input keeps anything from being created."""
    findings: tuple[Finding, ...] = ()
    commands: tuple[AgentCommand, ...] = ()
    restarting: bool = False
    answer: str = ""
    """What a person's request was answered with."""

    @property
    def before(self) -> SpecDecodeServerStatus:
        """The status as it stands."""
        return self.scene.world.server.status

    @property
    def finding(self) -> Finding | None:
        """All that is amiss, as one: what blocks comes first and gives the reason."""
        found = sorted(self.findings, key=lambda finding: not finding.blocks)
        if not found:
            return None
        return replace(found[0], message="; ".join(dict.fromkeys(finding.message for finding in found)))

    @property
    def untold(self) -> tuple[RevisionRecord, ...]:
        """The records whose outcome is another one than was told last."""
        told = self.scene.world.told_of
        return tuple(
            record
            for record in self.scene.records
            if record.outcome != (told[record.name].outcome if record.name in told else "")
        )

    @property
    def replicas(self) -> int:
        """Engine pods that are wanted."""
        wanted = self.scene.spec.replicas
        return 1 if wanted is None else wanted

    @property
    def ready(self) -> int:
        """Engine pods that serve."""
        return sum(pod.ready and not pod.deleting for pod in self.scene.world.pods)

    @property
    def launched(self) -> RevisionRecord | None:
        """The record of what engines start with after this pass."""
        return self.scene.record(self.plan.revision) if self.plan else None

    @property
    def candidate(self) -> RevisionRecord | None:
        """The revision that is on its way or being judged on some engine."""
        for _, status in self.scene.engines:
            found = living_candidate(status)
            if found is not None:
                return self.scene.record(found.revision)
        silent_ago = self.before.candidate if not self.scene.engines else None
        return self.scene.record(silent_ago.revision) if silent_ago else None

    @property
    def active(self) -> RevisionRecord | None:
        """The revision that serves, candidates left aside."""
        for _, status in self.scene.engines:
            found = living_candidate(status)
            on_trial = found is not None and found.revision == status.revision
            return self.scene.record(status.promoted if on_trial else status.revision or status.promoted)
        return self.scene.record(self.before.active.revision) if self.before.active else None

    @property
    def serving(self) -> RevisionRecord | None:
        """The revision whose figures are shown: a candidate as soon as any engine serves it, else what the first one serves."""
        found = self.candidate
        if found is not None and any(status.revision == found.name for _, status in self.scene.engines):
            return found
        for _, status in self.scene.engines:
            return self.scene.record(status.revision)
        return self.active

    @property
    def current(self) -> bool:
        """Whether the spec's revision is launched and serves on all engines."""
        engines = self.scene.engines
        name = self.scene.desired.name
        launched = self.plan is not None and self.plan.revision == name and self.plan.drafter is not None
        serves = all(status.revision == name and status.promoted == name for _, status in engines)
        return launched and bool(engines) and serves and self.candidate is None
