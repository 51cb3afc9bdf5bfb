"""The benchmark's watch: whatever ends it, it goes on where it stood."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from bench.scaling.following import followed
from tests.support.gate import served

Answer = Callable[[web.StreamResponse], Any]


def named(name: str, version: int) -> dict[str, Any]:
    return {"metadata": {"name": name, "resourceVersion": str(version)}}


def event(kind: str, item: dict[str, Any]) -> bytes:
    return json.dumps({"type": kind, "object": item}).encode() + b"\n"


CHANGE = event("MODIFIED", named("a", 12))


async def ended(answer: web.StreamResponse) -> None:
    """The API server ends the watch."""
    await answer.write(CHANGE)


async def cut(answer: web.StreamResponse) -> None:
    """The connection breaks."""
    await answer.write(CHANGE)
    assert answer._req is not None
    assert answer._req.transport is not None
    answer._req.transport.close()


async def deaf(answer: web.StreamResponse) -> None:
    """Nothing comes any more."""
    await answer.write(CHANGE)
    await asyncio.Event().wait()


async def expired(answer: web.StreamResponse) -> None:
    """The version is too old, as the watch says."""
    await answer.write(CHANGE + event("ERROR", {"code": 410, "reason": "Expired"}))


@pytest.mark.parametrize(
    ("first", "lists", "resumed_at"),
    [(ended, 1, ["10", "12"]), (cut, 1, ["10", "12"]), (deaf, 1, ["10", "12"]), (expired, 2, ["10", "10"])],
    ids=["ended", "cut", "deaf", "expired"],
)
async def test_a_watch_that_ends_is_taken_up_where_it_stood(
    monkeypatch: pytest.MonkeyPatch, first: Answer, lists: int, resumed_at: list[str]
):
    monkeypatch.setattr("bench.scaling.following.WATCH_SECONDS", 0)
    asked, listed = [], []

    async def answer(request: web.Request) -> web.StreamResponse:
        if "watch" not in request.query:
            listed.append(request.path)
            return web.json_response({"items": [named("a", 9)], "metadata": {"resourceVersion": "10"}})
        asked.append(request.query["resourceVersion"])
        stream = web.StreamResponse()
        await stream.prepare(request)
        if len(asked) == 1:
            await first(stream)
        else:
            await stream.write(event("DELETED", named("a", 13)))
        return stream

    app = web.Application()
    app.router.add_get("/things", answer)
    async with served(app, "127.0.0.1", 0) as port, aiohttp.ClientSession() as session, asyncio.timeout(20):
        found = []
        async for item in followed(session, f"http://127.0.0.1:{port}/things", late_seconds=0.5):
            found.append(item["metadata"]["resourceVersion"])
            if found[-1] == "13":
                break
    assert found == ["9", "12", *["9"] * (lists - 1), "13"]
    assert (len(listed), asked) == (lists, resumed_at)
