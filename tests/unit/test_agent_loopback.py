"""An order is settled once every rank says so."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Literal

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer, unused_port

from specdec.engine.agent.launch import Secrets
from specdec.engine.agent.loopback_client import EngineUnreachableError, Loopback, OrderRefusedError
from specdec.engine.loopback import SECRET_HEADER, Outcome, Report

NUMBER = 7
State = Literal["working", "done", "refused"]


class Rank:
    """What the plugin of one rank answers on its socket: the states one after the other, the last one from then on."""

    def __init__(self, rank: int, *states: State) -> None:
        self.rank, self.states, self.asked = rank, list(states), 0

    async def answer(self, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Write one report."""
        state = self.states[min(self.asked, len(self.states) - 1)]
        self.asked += 1
        outcome = Outcome(number=NUMBER, state=state, reason="ShapeMismatch", message=f"by rank {self.rank}")
        report = Report(
            rank=self.rank, sglang="0", patches=(), revision="r", steps=3, states=(0, 3), outcomes=(outcome,)
        )
        writer.write(report.model_dump_json(by_alias=True).encode() + b"\n")
        writer.close()


@asynccontextmanager
async def loopback(folder: Path, *ranks: Rank) -> AsyncIterator[Loopback]:
    """Reach ranks that answer on sockets in a folder."""
    async with AsyncExitStack() as stack:
        for one in ranks:
            path = str(folder / f"scheduler-{one.rank}.sock")
            await stack.enter_async_context(await asyncio.start_unix_server(one.answer, path))
        client = Loopback(folder, 1, Secrets(loopback="", probe_prefix="p-"), "kimi")
        stack.push_async_callback(client.close)
        yield client


async def test_a_rank_that_stages_longer_is_waited_for(tmp_path: Path):
    slow = Rank(1, "working", "working", "done")
    async with loopback(tmp_path, Rank(0, "done"), slow) as client:
        outcome = await client.settled(NUMBER, seconds=5)
    assert (outcome.state, outcome.message, slow.asked) == ("done", "by rank 0", 3)


async def test_what_any_rank_refuses_is_refused(tmp_path: Path):
    async with loopback(tmp_path, Rank(0, "done"), Rank(1, "working", "refused")) as client:
        with pytest.raises(OrderRefusedError, match="by rank 1") as refused:
            await client.settled(NUMBER, seconds=5)
    assert refused.value.reason == "ShapeMismatch"


async def test_a_rank_that_never_settles_has_a_deadline(tmp_path: Path):
    async with loopback(tmp_path, Rank(0, "done"), Rank(1, "working")) as client:
        with pytest.raises(EngineUnreachableError, match="order 7 did not settle"):
            await client.settled(NUMBER, seconds=0.2)


async def test_an_engine_without_a_socket_is_out_of_reach(tmp_path: Path):
    async with loopback(tmp_path) as client:
        with pytest.raises(EngineUnreachableError, match="gave no report"):
            await client.settled(NUMBER, seconds=5)


@pytest.mark.parametrize("status", [200, 404])
async def test_garbage_collection_is_frozen_once_with_the_secret(tmp_path: Path, status: int):
    secrets: list[str] = []

    async def frozen(request: web.Request) -> web.Response:
        secrets.append(request.headers[SECRET_HEADER])
        return web.Response(status=status)

    app = web.Application()
    app.router.add_post("/freeze_gc", frozen)
    async with TestServer(app) as server:
        client = Loopback(tmp_path, server.port or 0, Secrets(loopback="s", probe_prefix="p-"), "kimi")
        await client.freeze_gc()
        await client.close()
    assert secrets == ["s"]


async def test_an_engine_that_does_not_freeze_serves_all_the_same(tmp_path: Path, caplog):
    client = Loopback(tmp_path, unused_port(), Secrets(loopback="s", probe_prefix="p-"), "kimi")
    await client.freeze_gc()
    await client.close()
    assert "garbage collection goes on" in caplog.text
