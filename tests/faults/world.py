"""A cluster with one server, its engines and users, in virtual time, and the operator's lives in it."""

from __future__ import annotations

import asyncio
import copy
import random
from dataclasses import dataclass, field
from typing import Any

from tests.faults import jobs, nodes
from tests.faults.apiserver import ApiServer
from tests.faults.engines import EnginePod
from tests.faults.network import Network
from tests.faults.process import Process
from tests.support.merge import merged
from tests.support.scenario_agent import Model

from specdec.controller.kinds import SPEC_DECODE_SERVER
from specdec.controller.observe import REQUEST
from specdec.engine.protocol import LaunchPlan, Phase

TURN_SECONDS = 0.5
BACK_SECONDS = 2.0
"""How long it takes until a dead operator's container runs again."""
EPOCH = 1_800_000_000.0
KEY = ("llm", "kimi")
Manifest = dict[str, Any]


@dataclass
class World:
    """What lasts when the operator dies; plain data, so that a story's beginning can be copied."""

    models: dict[str, Model]
    server: ApiServer = field(default_factory=lambda: ApiServer(EPOCH))
    engines: dict[str, EnginePod] = field(default_factory=dict)
    """By pod UID."""
    rate: float = 2.0
    """Users' requests a second on each pod."""
    seed: int = 1
    pods_made: int = 0
    templates: list[Manifest] = field(default_factory=list)
    """Pod templates that pods were made from."""
    rollbacks: int = 0
    late: list[str] = field(default_factory=list)
    """What operators changed after they had lost the Lease."""
    network: Network = field(default_factory=Network)
    lives: int = 0
    most_down: int = 0
    """Most pods at once that were ready before and are not."""
    process: Process | None = None
    _owed: float = 0.0
    _were_ready: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)

    def copied(self, network: Network) -> World:
        """Make the same world once more, with no operator yet."""
        self.server.listeners.clear()
        self.server.log.clear()
        self.server.forget()
        self.process, self.network = None, Network()
        twin = copy.deepcopy(self)
        twin.network = network
        network.kill = twin.crash
        return twin

    def crash(self) -> None:
        """End the operator's process at once."""
        if self.process is not None:
            self.process.kill()

    def mounted_plan(self, pod: EnginePod) -> LaunchPlan:
        """Plan in the pod's volume."""
        return nodes.plan_of(self, *KEY) or pod.agent.plan

    def apply(self, spec: Manifest) -> None:
        """Apply a whole spec, as its user."""
        live = self.server.get(SPEC_DECODE_SERVER, *KEY) or {
            "apiVersion": "specdec.dev/v1alpha1",
            "kind": "SpecDecodeServer",
            "metadata": {"namespace": KEY[0], "name": KEY[1]},
        }
        self.server.put({**live, "spec": spec})

    def edit(self, **changes: Any) -> None:
        """Merge changes into the spec, as its user."""
        live = self.server.get(SPEC_DECODE_SERVER, *KEY)
        assert live is not None
        self.server.put({**live, "spec": merged(live["spec"], changes)})

    def ask(self, request: str) -> None:
        """Annotate the server with a one-shot request, as its user."""
        live = self.server.get(SPEC_DECODE_SERVER, *KEY)
        assert live is not None
        metadata = {**live["metadata"], "annotations": {REQUEST: request}}
        self.server.put({**live, "metadata": metadata})

    async def go_on(self) -> None:
        """Let time pass for ever: agents, users, controllers, and a kubelet that restarts the operator."""
        loop = asyncio.get_running_loop()
        gone_since: float | None = None
        while True:
            self.server.now = loop.time()
            self._turn()
            if self.process is not None and self.process.complaints:
                self.process.kill()  # /healthz failed
            if self.process is None or self.process.ended:
                gone_since = gone_since or loop.time()
                if self.process is None or loop.time() - gone_since >= BACK_SECONDS:
                    self.lives += 1
                    self.process, gone_since = Process(self, f"operator-{self.lives}"), None
                    self.process.start()
            await asyncio.sleep(TURN_SECONDS)

    def _turn(self) -> None:
        for pod in self.engines.values():
            pod.agent.tick(self.server.now)
            pod.status()
        self._owed += self.rate * TURN_SECONDS
        while self._owed >= 1:
            self._owed -= 1
            for pod in self.engines.values():
                pod.agent.serve(self.rng.randint(10, 14))
        nodes.turn(self)
        jobs.turn(self)
        ready = {uid for uid, pod in self.engines.items() if pod.agent.phase is Phase.SERVING}
        self._were_ready = (self._were_ready | ready) & set(self.engines)
        self.most_down = max(self.most_down, len(self._were_ready - ready))
