"""Engine pods of a server on a real API server, without a node: their agents answer on loopback addresses.

The pods themselves are those that Kubernetes' own controllers make; no node takes them, and what a kubelet would
write into their status is written here.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from tests.faults.engines import EnginePod
from tests.support.agenthttp import agent_app
from tests.support.gate import Gate, served
from tests.support.kubeapi import KubeApi
from tests.support.scenario_agent import FakeAgent, Model

from specdec.controller.kinds import CONFIG_MAP, POD
from specdec.engine.protocol import AGENT_PORT, LaunchPlan, Phase
from specdec.resources import launch_plan_of
from specdec.resources.labels import RESTART_HASH, config_map_name

TURN_SECONDS = 0.25
REQUESTS = 2
"""Users' requests on each pod in one turn."""
NO_NODE = {"no-node/takes-it": "true"}
"""Node selector of these pods."""


@dataclass
class FakePods:
    """The engine pods of one server."""

    api: KubeApi
    gate: Gate
    namespace: str
    server: str
    network: str
    """First three numbers of the pods' addresses."""
    models: dict[str, Model]
    pods: dict[str, EnginePod] = field(default_factory=dict)
    """By UID."""
    _rng: random.Random = field(default_factory=lambda: random.Random(1))

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Take pods in as they come, and let their agents and users live."""
        # If they fail, so does whoever waits for something from them, at once.
        async with contextlib.AsyncExitStack() as sites, asyncio.TaskGroup() as group:
            task = group.create_task(self._go_on(sites))
            try:
                yield
            finally:
                task.cancel()

    async def _go_on(self, sites: contextlib.AsyncExitStack) -> None:
        while True:
            for manifest in await self.api.items(POD, self.namespace, f"{POD.label}={self.server}"):
                await self._take_in(sites, manifest)
            for pod in self.pods.values():
                pod.agent.tick(time.time())
                pod.status()
                for _ in range(REQUESTS):
                    pod.agent.serve(self._rng.randint(10, 14))
            await asyncio.sleep(TURN_SECONDS)

    async def plan(self) -> LaunchPlan:
        """Read the launch plan that is mounted into the pods."""
        return launch_plan_of(await self.api.get(CONFIG_MAP, self.namespace, config_map_name(self.server)))

    def _pod_at(self, address: str) -> EnginePod:
        return next(pod for pod in self.pods.values() if pod.address == address)

    async def _take_in(self, sites: contextlib.AsyncExitStack, manifest: dict[str, Any]) -> None:
        """Give a new pod its agent and address, and keep its status as a kubelet would."""
        metadata, status = manifest["metadata"], manifest["status"]
        shown = {item["type"]: item["status"] for item in status.get("conditions", ())}
        if "PodScheduled" not in shown:
            return  # the scheduler has not seen it yet, and would overwrite what is said here
        pod = self.pods.get(metadata["uid"])
        if pod is None:
            agent = FakeAgent(metadata["uid"], await self.plan(), self.models, time.time(), self._rng)
            address = f"{self.network}.{len(self.pods) + 1}"
            label = metadata["labels"][RESTART_HASH]
            pod = EnginePod(metadata["name"], metadata["uid"], address, agent, label)
            self.pods[pod.uid] = pod
            app = agent_app(self._pod_at, lambda _: self.plan(), self.gate.done)
            await sites.enter_async_context(served(app, address, AGENT_PORT))
        ready = "True" if pod.agent.phase is Phase.SERVING else "False"
        if (shown.get("PodScheduled"), shown.get("Ready")) != ("True", ready):
            await self.api.set_status(POD, self.namespace, pod.name, _seen(pod.address, ready))


def _seen(address: str, ready: str) -> dict[str, Any]:
    """What a kubelet writes of a pod that runs."""
    told = {"PodScheduled": "True", "Ready": ready}
    conditions = [
        {"type": kind, "status": value, "message": "", "reason": ""} for kind, value in told.items()
    ]
    return {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}], "conditions": conditions}
