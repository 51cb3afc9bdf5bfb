"""The answer to a watch: what happens after a version, as lines, with the faults that news may meet."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import aiohttp
from tests.faults.apiserver import BY_RESOURCE
from tests.faults.network import Channel, Fault

if TYPE_CHECKING:
    from tests.faults.process import Process

NEWS_SECONDS = 0.02
LATE_NEWS_SECONDS = 5.0


class Garbage:
    """What is no watch."""

    async def iter_any(self) -> AsyncIterator[bytes]:
        yield b"<html>\n"

    def close(self) -> None:
        """It is left."""


class Stream:
    """What comes as the content of the answer to a watch."""

    def __init__(self, process: Process, resource: str, query: dict[str, str]) -> None:
        self._process, self._server, self._network = process, process.world.server, process.world.network
        self._resource, self._label = resource, query.get("labelSelector", "")
        self._after = int(query.get("resourceVersion", "0"))
        self._end = asyncio.get_running_loop().time() + float(query["timeoutSeconds"])
        self._more, self._late, self._cut = asyncio.Event(), list[bytes](), False

    def close(self) -> None:
        """It is left."""
        if self._heard in self._server.listeners:
            self._server.listeners.remove(self._heard)
        if self._broke in self._network.broken:
            self._network.broken.remove(self._broke)

    async def iter_any(self) -> AsyncIterator[bytes]:
        self._server.listeners.append(self._heard)
        self._network.broken.append(self._broke)
        if self._after < self._server.forgotten:
            yield _line("ERROR", {"code": 410, "message": "too old resource version"})
            return
        try:
            while await self._waited():
                self._more.clear()
                await self._passing()
                while self._late:
                    yield self._late.pop()
                async for line in self._news():
                    yield line
        finally:
            self.close()
        yield _line("BOOKMARK", {"metadata": {"resourceVersion": str(self._after)}})

    def _broke(self) -> None:
        self._cut = True
        self._more.set()

    def _heard(self, event: str, manifest: dict[str, Any]) -> None:
        self._more.set()

    async def _passing(self) -> None:
        """Break where the connection broke, and say nothing where nothing is heard."""
        if self._network.away is not None and self._network.hung:
            await asyncio.get_running_loop().create_future()
        if self._cut:
            raise aiohttp.ClientPayloadError("the connection broke")

    async def _waited(self) -> bool:
        """Wait for the next event; says whether the watch goes on."""
        if self._server.log and self._server.log[-1][0] > self._after:
            self._more.set()
        try:
            async with asyncio.timeout(self._end - asyncio.get_running_loop().time()):
                await self._more.wait()
        except TimeoutError:
            return False
        return True

    async def _news(self) -> AsyncIterator[bytes]:
        for version, event, manifest in [item for item in self._server.log if item[0] > self._after]:
            self._after = version
            if not self._watched(manifest):
                continue
            await asyncio.sleep(NEWS_SECONDS)
            await self._process.awake.wait()
            name = manifest["metadata"]["name"]
            fault = self._network.here(Channel.NEWS, f"{event} {self._resource} {name}")
            line = _line(event, manifest)
            match fault:
                case Fault.CRASH_BEFORE:
                    self._process.kill()
                    await asyncio.sleep(0)
                case Fault.BROKEN:
                    raise aiohttp.ClientPayloadError("the connection broke")
                case Fault.DEAF:
                    await asyncio.get_running_loop().create_future()
                case Fault.GONE:
                    self._server.forget()
                    raise aiohttp.ClientPayloadError("the connection broke")
                case Fault.LATE:
                    asyncio.get_running_loop().call_later(LATE_NEWS_SECONDS, self._come, line)
                case Fault.DROPPED:
                    pass
                case _:
                    yield line * (2 if fault is Fault.TWICE else 1)

    def _come(self, line: bytes) -> None:
        self._late.append(line)
        self._more.set()

    def _watched(self, manifest: dict[str, Any]) -> bool:
        kind = BY_RESOURCE[self._resource]
        return manifest["kind"] == kind.kind and self._label in manifest["metadata"].get("labels", {})


def _line(event: str, manifest: dict[str, Any]) -> bytes:
    return json.dumps({"type": event, "object": manifest}).encode() + b"\n"
