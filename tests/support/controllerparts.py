"""A server's loop with everything around it in memory: store, API server, agents, virtual time."""

import asyncio
from dataclasses import dataclass, field
from typing import Any

from tests.support.fakekube import FakeKube

from specdec.api.v1alpha1 import SpecDecodeServerStatus
from specdec.controller.agents import AgentError
from specdec.controller.apply import Applier
from specdec.controller.claims import Claims
from specdec.controller.clock import Clock
from specdec.controller.events import EventPoster
from specdec.controller.loop import Planner, ServerLoop
from specdec.controller.poller import Poller
from specdec.controller.status import StatusWriter
from specdec.controller.store import Store
from specdec.engine.protocol import Answer, Envelope, Phase, PreflightResult, Status
from specdec.resources.labels import metadata
from specdec.rollout.world import Evidence, Plan, Settings, World

KEY = ("serving", "demo")
UID = "server-uid"
POLL_STEP = 0.01
"""How often a waiting fake agent looks whether it says something else by now."""


def server(**spec: Any) -> dict[str, Any]:
    """Build a server as the API server returns it."""
    metadata = {"name": "demo", "namespace": "serving", "uid": UID, "generation": 1}
    target = {"model": "pvc://models/target"}
    return {
        "apiVersion": "specdec.dev/v1alpha1",
        "kind": "SpecDecodeServer",
        "metadata": metadata,
        "spec": {"target": target, "drafter": {"model": "pvc://models/v1"}, **spec},
    }


def pod(name: str = "demo-0", address: str = "10.0.0.1", uid: str = "pod-uid") -> dict[str, Any]:
    """Build an engine pod with an address."""
    metadata = {
        "name": name,
        "namespace": "serving",
        "uid": uid,
        "labels": {"specdec.dev/server": "demo"},
        "ownerReferences": [{"uid": "workload-uid", "kind": "StatefulSet", "name": "demo"}],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "status": {"podIP": address}}


@dataclass
class FakeAgents:
    """Agents that say what the test wants, by address."""

    said: dict[str, Status] = field(default_factory=dict)
    answers: list[Answer] = field(default_factory=list)
    taken: list[tuple[str, str, Envelope]] = field(default_factory=list)
    asked: list[float] = field(default_factory=list)
    found: dict[str, PreflightResult] = field(default_factory=dict)
    preflights: list[str] = field(default_factory=list)
    slow: dict[str, float] = field(default_factory=dict)
    """Seconds that an agent takes to answer, by address."""

    async def status(self, address: str, *, since: int | None = None, wait: float = 0.0) -> Status:
        self.asked.append(asyncio.get_running_loop().time())
        await asyncio.sleep(self.slow.get(address, 0.0))
        for _ in range(round(wait / POLL_STEP)):
            if self.said.get(address, _silent()).serial != since:
                break
            await asyncio.sleep(POLL_STEP)
        if address not in self.said:
            raise AgentError(f"agent at {address}: no answer")
        return self.said[address]

    async def preflight(self, address: str, revision: str) -> PreflightResult:
        self.preflights.append(revision)
        if revision not in self.found:
            raise AgentError(f"agent at {address}: no answer")
        return self.found[revision]

    async def command(self, address: str, pod_uid: str, envelope: Envelope) -> Answer:
        self.taken.append((address, pod_uid, envelope))
        return self.answers.pop(0) if self.answers else Answer(accepted=True)


def status(serial: int = 1, **fields: Any) -> Status:
    """Build a status of the pod."""
    return Status(**{"serial": serial, "pod_uid": "pod-uid", "boot": "b", "phase": Phase.SERVING, **fields})


def _silent() -> Status:
    return status(serial=-1)


class NoJudge:
    """Has no opinion."""

    def evidence(self, world: World, now: float) -> Evidence:
        return {}


def child(world: World) -> dict[str, Any]:
    """Build an object that the server owns."""
    owned = metadata(world.server, "demo-extra")
    return {"apiVersion": "v1", "kind": "Service", "metadata": owned, "spec": {"note": "1"}}


def calm(world: World, evidence: Evidence, now: float) -> Plan:
    """Want one object and one status, always the same."""
    return Plan((child(world),), status=SpecDecodeServerStatus(phase="Serving"), requeue_after=5)


@dataclass
class Parts:
    """One server's loop and what it stands on."""

    planner: Planner
    kube: FakeKube = field(default_factory=FakeKube)
    store: Store = field(default_factory=Store)
    agents: FakeAgents = field(default_factory=FakeAgents)
    woken: list[tuple[str, str]] = field(default_factory=list)
    leading: bool = True

    def __post_init__(self) -> None:
        time = asyncio.get_running_loop().time
        self.clock = Clock(now=lambda: 1_780_000_000 + time(), monotonic=time)
        self.poller = Poller(self.agents, self.store, self.clock, self.woken.append)
        self.applier = Applier(
            key=KEY,
            kube=self.kube,
            store=self.store,
            agents=self.agents,
            poller=self.poller,
            epoch=lambda: 7,
            may_decide=lambda: self.leading,
            clock=self.clock,
        )

    def add(self, manifest: dict[str, Any]) -> dict[str, Any]:
        """Put an object into the API server, and into the store as its watch would."""
        stored = self.kube.add(manifest)
        self.store.put(stored)
        return stored

    def loop(self) -> ServerLoop:
        """Build the loop."""
        return ServerLoop(
            key=KEY,
            uid=UID,
            settings=Settings("registry.example/engine", ()),
            store=self.store,
            claims=Claims(self.kube, self.clock),
            poller=self.poller,
            applier=self.applier,
            status=StatusWriter(self.kube, self.store, self.clock),
            events=EventPoster(self.kube, self.clock, "operator-0"),
            judge=NoJudge(),
            planner=self.planner,
            clock=self.clock,
            may_decide=lambda: self.leading,
            slots=asyncio.Semaphore(8),
        )
