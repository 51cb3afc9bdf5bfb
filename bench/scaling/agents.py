"""The agents of all engine pods in one process: `python -m bench.scaling.agents PORT` beside an API server whose pods KWOK plays.

Each speaks `engine.protocol` at its pod's address, checks what the operator signs, and has users: a request in two seconds.
`/asked` on PORT of loopback tells how they were asked for their status: `gaps`, the seconds between one time and the next of the
same agent, as far as nobody was told yet, and `oldest`, the seconds since the one that was not asked for longest was.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import sys
import time
from typing import Any

import aiohttp
from aiohttp import web
from tests.faults.engines import EnginePod
from tests.support.agenthttp import agent_app
from tests.support.gate import served
from tests.support.kubeapi import KubeApi
from tests.support.scenario_agent import FakeAgent, Model

from bench.scaling.apiserver import TOKEN
from bench.scaling.following import followed
from bench.scaling.objects import NAMESPACE
from specdec.controller.kinds import CONFIG_MAP, POD
from specdec.engine.protocol import AGENT_PORT, LaunchPlan
from specdec.resources import launch_plan_of
from specdec.resources.labels import RESTART_HASH, SERVER, config_map_name

TURN_SECONDS, PARTS = 1.0, 20
"""Each pod has its turn once in so long, and one of so many parts of them at a time."""
CALLS = 12
"""Verify calls of one request."""
RIGHT = Model(quality=1.0)
"""Always right: its accept length does not move, so nothing that is told of it does."""
MODELS = {f"/models/models/drafters/{version}": RIGHT for version in ("v1", "v2")}


class Agents:
    """Follows the pods, and lets their agents and users live."""

    def __init__(self, api: KubeApi) -> None:
        self._api, self._rng = api, random.Random(1)  # noqa: S311 - no secret
        self._pods: dict[str, EnginePod] = {}
        """By address, which a pod keeps and no other has meanwhile."""
        self._servers: dict[str, str] = {}
        """By pod's UID."""
        self._plans: dict[str, LaunchPlan] = {}
        self._asked: dict[str, float] = {}
        self._gaps: list[float] = []

    async def run(self, port: int) -> None:
        """Run until one part fails."""
        told = web.Application()
        told.router.add_get("/asked", self._tell)
        app = agent_app(self._pods.__getitem__, self._plan, lambda _: None)
        app.on_response_prepare.append(self._note)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        async with served(told, "127.0.0.1", port), asyncio.TaskGroup() as tasks:
            tasks.create_task(self._live())
            async for manifest in followed(self._api.session, self._api.url + POD.path(NAMESPACE)):
                await self._take_in(runner, manifest)

    async def _take_in(self, runner: web.AppRunner, manifest: dict[str, Any]) -> None:
        metadata, address = manifest["metadata"], manifest["status"].get("podIP", "")
        known = self._pods.get(address)
        if not address or (known is not None and known.uid == metadata["uid"]):
            return
        uid, server = metadata["uid"], metadata["labels"][SERVER]
        self._servers[uid] = server
        plan = self._plans.get(server) or await self._read(server)
        agent = FakeAgent(uid, plan, MODELS, time.time(), self._rng)
        self._pods[address] = EnginePod(
            metadata["name"], uid, address, agent, metadata["labels"][RESTART_HASH]
        )
        if known is None:
            await web.TCPSite(runner, address, AGENT_PORT).start()

    async def _plan(self, pod: EnginePod) -> LaunchPlan:
        return await self._read(self._servers[pod.uid])

    async def _read(self, server: str) -> LaunchPlan:
        """Read the launch plan that is mounted into a server's pods."""
        found = launch_plan_of(await self._api.get(CONFIG_MAP, NAMESPACE, config_map_name(server)))
        self._plans[server] = found
        return found

    async def _live(self) -> None:
        """Let time pass, for a part of the pods after the other, so that no question waits long for its answer."""
        for turn in itertools.count():
            users = turn // PARTS % 2 == 0
            for pod in list(self._pods.values())[turn % PARTS :: PARTS]:
                pod.agent.tick(time.time())
                if users:
                    pod.agent.serve(CALLS)
            await asyncio.sleep(TURN_SECONDS / PARTS)

    async def _note(self, request: web.Request, _: web.StreamResponse) -> None:
        """Note how long after the last status this one is told."""
        if request.path == "/status":
            now, address = time.monotonic(), request.host
            if address in self._asked:
                self._gaps.append(now - self._asked[address])
            self._asked[address] = now

    async def _tell(self, _: web.Request) -> web.Response:
        gaps, self._gaps = self._gaps, []
        oldest = time.monotonic() - min(self._asked.values(), default=0.0)
        return web.json_response({"gaps": gaps, "oldest": oldest})


async def main(port: int) -> None:
    """Run until the process is ended."""
    connector = aiohttp.TCPConnector(ssl=False, limit=32)
    headers = {"Authorization": f"Bearer {TOKEN}"}
    async with aiohttp.ClientSession(connector=connector, headers=headers, read_bufsize=1 << 20) as session:
        await Agents(KubeApi(os.environ["BENCH_URL"], session)).run(port)


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
