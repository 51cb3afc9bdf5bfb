"""One real agent and the operator's decisions on it, without Kubernetes: looked at, judged, planned for, told.

The operator's clock leaps over waits: what it decides depends on the time that it is told.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.support.agentpod import POD_UID, AgentPod
from tests.support.scenario_world import SETTINGS

from specdec.api.v1alpha1 import SpecDecodeServer, SpecDecodeServerStatus
from specdec.engine.protocol import DrafterRef, LaunchPlan
from specdec.rollout import revisions
from specdec.rollout.clock import exact
from specdec.rollout.evidence import Judge
from specdec.rollout.pace import BLOCK_SECONDS, PROBATION_PERIOD
from specdec.rollout.plan import plan
from specdec.rollout.quarantine import PROMOTED
from specdec.rollout.world import ClaimView, Event, PodView, RevisionRecord, World

LOOK_SECONDS = 0.3
AFTER_BLOCK_SECONDS = 4.0
"""After a block that much is lived through; the rest until the next one is leapt over."""


@dataclass
class OperatedPod:
    """A pod whose promoted drafter is on probation."""

    pod: AgentPod
    server: SpecDecodeServer
    record: RevisionRecord
    launch: LaunchPlan
    judge: Judge = field(default_factory=Judge)
    events: list[Event] = field(default_factory=list)
    _began: float = field(default_factory=time.time)
    _leapt: float = 0.0

    @classmethod
    def started(cls, pod: AgentPod, drafter: str, spec: dict[str, Any]) -> OperatedPod:
        """Start a pod with a tiny drafter that counts as promoted just now, and wait until it serves."""
        wanted = {
            "target": {"model": "pvc://models/kimi"},
            "drafter": {"model": f"pvc://models/{drafter}"},
            "preflight": {"mode": "Off"},
            **spec,
        }
        metadata = {"name": "kimi", "namespace": "llm", "uid": "uid-0", "generation": 1}
        server = SpecDecodeServer.model_validate({"metadata": metadata, "spec": wanted})
        content = revisions.content(server, SETTINGS)
        name = revisions.name(server, content)
        serving = DrafterRef(revision=name, version=drafter, path=str(pod.models / drafter))
        launch = pod.write_plan(serving)
        pod.start()
        pod.wait_serving()
        record = RevisionRecord(name, 1, content, outcome=PROMOTED, at=exact(time.time()))
        return cls(pod, server, record, launch)

    @property
    def now(self) -> float:
        """Unix seconds by the operator's clock."""
        return time.time() + self._leapt

    def look(self) -> SpecDecodeServerStatus:
        """Make one pass: observe, judge, plan, tell the agent; returns the status that it writes."""
        self._leap()
        now, status = self.now, self.pod.status()
        view = PodView(
            name="kimi-0", uid=POD_UID, created=self._began, ready=True, was_ready=True,
            restart_hash=revisions.restart_hash(self.record.data), status=status, heard_at=now,
        )  # fmt: skip
        world = World(
            self.server, SETTINGS, pods=(view,), claims=(ClaimView("models", exists=True),),
            revisions=(self.record,), launch_plan=self.launch,
        )  # fmt: skip
        made = plan(world, self.judge.evidence(world, now), now)
        for order in made.commands:
            answer = self.pod.command(order.command)[1]
            assert answer.accepted, (order.command, answer)
        self.events += made.events
        shown = SpecDecodeServerStatus.model_validate_json(made.status.model_dump_json(by_alias=True))
        self.server = self.server.model_copy(update={"status": shown})
        return shown

    def _leap(self) -> None:
        """Leave out the time between two blocks in which nothing is decided."""
        into = self.now % PROBATION_PERIOD
        if into > BLOCK_SECONDS + AFTER_BLOCK_SECONDS:
            self._leapt += PROBATION_PERIOD - into

    def until(
        self, holds: Callable[[SpecDecodeServerStatus], bool], seconds: float, what: str
    ) -> SpecDecodeServerStatus:
        """Look again and again until the status is so."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            shown = self.look()
            if holds(shown):
                return shown
            time.sleep(LOOK_SECONDS)
        pairs = self.judge.stopwatch.baseline.pairs
        raise AssertionError(f"not within {seconds:.0f} s: {what}; pairs {pairs}; {self.server.status!r}")
