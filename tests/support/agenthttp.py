"""The HTTP side of fake agents: status with its long poll, and signed commands."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from aiohttp import web
from tests.faults.engines import POLL_STEP_SECONDS, EnginePod

from specdec.engine.protocol import Confirm, Envelope, LaunchPlan


def agent_app(
    pod_at: Callable[[str], EnginePod],
    plan_of: Callable[[EnginePod], Awaitable[LaunchPlan]],
    taken: Callable[[str], None],
) -> web.Application:
    """Serve the agents' API for the pods at the addresses that it is reached under; `taken` hears of each command's verb."""

    async def status(request: web.Request) -> web.Response:
        pod = pod_at(_local(request))
        for _ in range(int(float(request.query.get("wait", 0)) / POLL_STEP_SECONDS)):
            if str(pod.status().serial) != request.query.get("since"):
                break
            await asyncio.sleep(POLL_STEP_SECONDS)
        return web.json_response(text=pod.status().model_dump_json(by_alias=True, exclude_defaults=True))

    async def command(request: web.Request) -> web.Response:
        pod = pod_at(_local(request))
        body, token = await request.read(), request.headers["Authorization"].removeprefix("Bearer ")
        answer = pod.take(token, body, await plan_of(pod))
        said = Envelope.model_validate_json(body).command
        if answer.accepted and not isinstance(said, Confirm):
            taken(said.verb)
        return web.json_response(text=answer.model_dump_json(by_alias=True))

    app = web.Application()
    app.router.add_get("/status", status)
    app.router.add_post("/commands", command)
    return app


def _local(request: web.Request) -> str:
    assert request.transport is not None
    address: str = request.transport.get_extra_info("sockname")[0]
    return address
