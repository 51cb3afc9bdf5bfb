"""The least that an operator can do: list, watch, a queue and eight workers, on asyncio alone."""

from __future__ import annotations

import asyncio
import json
import os
from typing import Any

import aiohttp

from bench.scaling.apiserver import TOKEN
from bench.scaling.following import followed
from bench.scaling.objects import APPLY, SERVERS, Template
from specdec.api.base import API_VERSION, KIND

URL = os.environ["BENCH_URL"]
WORKERS = 8
HEADERS = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/apply-patch+yaml"}


class Floor:
    """Writes what the newest version of each server asks for, and what it asked for before, never."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self._session, self._template = session, Template()
        self._queue: asyncio.Queue[str] = asyncio.Queue()
        self._seen: dict[str, tuple[str, int]] = {}
        self._done: dict[str, int] = {}

    def take(self, found: dict[str, Any]) -> None:
        """Take a version of a server."""
        metadata = found["metadata"]
        name, generation = metadata["name"], metadata["generation"]
        observed = found.get("status", {}).get("observedGeneration", 0)
        if max(observed, self._done.get(name, 0)) >= generation:
            return
        if self._seen.get(name, ("", 0))[1] < generation:
            self._seen[name] = (metadata["uid"], generation)
            self._queue.put_nowait(name)

    async def work(self) -> None:
        """Write for one server after the other."""
        while True:
            name = await self._queue.get()
            uid, generation = self._seen[name]
            if generation == 1:
                for path, body in self._template.objects(name, uid):
                    await self._patch(path, body)
            head = {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": name}}
            body = json.dumps({**head, "status": self._template.status(generation)}).encode()
            await self._patch(f"{SERVERS}/{name}/status{APPLY}", body)
            self._done[name] = generation

    async def _patch(self, path: str, body: bytes) -> None:
        async with self._session.patch(URL + path, data=body) as answer:
            answer.raise_for_status()
            await answer.read()

    async def run(self) -> None:
        """List and watch for ever, or until a worker fails."""
        async with asyncio.TaskGroup() as tasks:
            for _ in range(WORKERS):
                tasks.create_task(self.work())
            async for found in followed(self._session, URL + SERVERS):
                self.take(found)


async def main() -> None:
    """Run for ever."""
    connector = aiohttp.TCPConnector(ssl=False, limit=32)
    timeout = aiohttp.ClientTimeout(total=None)
    async with aiohttp.ClientSession(
        connector=connector, headers=HEADERS, timeout=timeout, read_bufsize=1 << 20
    ) as session:
        await Floor(session).run()


if __name__ == "__main__":
    asyncio.run(main())
