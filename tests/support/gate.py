"""A way to the API server for one operator process: counts what it changes, and kills it at a chosen change."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import aiohttp
from aiohttp import web
from yarl import URL

PASSED_ON = ("Accept", "Content-Type", "User-Agent")
UNCOUNTED = {"leases", "events", "secrets"}
"""The Lease is renewed all the time; events follow the status; the key is made once."""
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


class Point(NamedTuple):
    """One change of many: "create controllerrevisions", "patch specdecodeservers/status", "Swap"."""

    change: str
    number: int = 1
    """Which one of its kind, from 1."""


@dataclass
class Gate:
    """Counts changes from the moment that it is armed; at its point the operator dies before it has the answer."""

    upstream: str
    point: Point | None
    kill: Callable[[], None]
    """Sends SIGKILL: nobody reads an answer any more that is sent afterwards."""
    armed: bool = False
    changes: list[str] = field(default_factory=list)
    dead: asyncio.Event = field(default_factory=asyncio.Event)
    changed_at: float = 0.0
    _seen: Counter[str] = field(default_factory=Counter)

    def done(self, change: str) -> None:
        """Count a change that was just made."""
        self.changed_at = time.monotonic()
        if not self.armed:
            return
        self.changes.append(change)
        self._seen[change] += 1
        if self.point == (change, self._seen[change]) and not self.dead.is_set():
            self.kill()
            self.dead.set()

    def quiet(self, seconds: float) -> bool:
        """Whether nothing was changed for a while."""
        return time.monotonic() - self.changed_at > seconds

    @contextlib.asynccontextmanager
    async def opened(self) -> AsyncIterator[str]:
        """Serve, and yield the URL."""
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None)) as session:

            async def forward(request: web.Request) -> web.StreamResponse:
                return await self._forward(session, request)

            app = web.Application(client_max_size=4 << 20)
            app.router.add_route("*", "/{path:.*}", forward)
            async with served(app, "127.0.0.1", 0) as port:
                yield f"http://127.0.0.1:{port}"

    async def _forward(self, session: aiohttp.ClientSession, request: web.Request) -> web.StreamResponse:
        headers = {name: request.headers[name] for name in PASSED_ON if name in request.headers}
        url = URL(self.upstream + request.raw_path, encoded=True)
        body = await request.read()
        async with session.request(request.method, url, headers=headers, data=body or None) as answer:
            kind = {"Content-Type": answer.headers["Content-Type"]}
            if change := _change(request):
                text = await answer.read()
                if answer.ok:
                    self.done(change)
                return web.Response(status=answer.status, headers=kind, body=text)
            response = web.StreamResponse(status=answer.status, headers=kind)
            with contextlib.suppress(ConnectionResetError):  # whoever asked is dead
                await response.prepare(request)
                async for piece in answer.content.iter_any():
                    await response.write(piece)
            return response


def _change(request: web.Request) -> str:
    """Name what a request changes; "" if it changes nothing that counts."""
    verb = _VERBS.get(request.method, "")
    parts = request.path.split("/")
    if not verb or "namespaces" not in parts:
        return ""
    kind, *rest = parts[parts.index("namespaces") + 2 :]
    subresource = f"/{rest[1]}" if len(rest) > 1 else ""
    return "" if kind in UNCOUNTED else f"{verb} {kind}{subresource}"


@contextlib.asynccontextmanager
async def served(app: web.Application, host: str, port: int) -> AsyncIterator[int]:
    """Serve an application, and yield its port; what a client asked for ends with the client."""
    runner = web.AppRunner(app, handler_cancellation=True, access_log=None, shutdown_timeout=1)
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port).start()
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()
