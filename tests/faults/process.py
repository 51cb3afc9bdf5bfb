"""One life of the operator: its own entry point, on the network's connections, ended at any moment."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.faults.engines import Session
from tests.faults.network import Channel, Fault
from tests.faults.stream import LATE_NEWS_SECONDS, NEWS_SECONDS, Garbage, Stream
from tests.support.guardedapi import request

from specdec.controller import main, watches
from specdec.controller.clock import Clock
from specdec.controller.kinds import LEASE, SPEC_DECODE_SERVER, Kind
from specdec.controller.kube import Kube
from specdec.controller.lease import Lease
from specdec.controller.settings import OperatorSettings
from specdec.controller.store import Manifest, Store
from specdec.controller.watches import DEAF_SECONDS, WATCH_SECONDS, Wake, take

if TYPE_CHECKING:
    from tests.faults.world import World

SETTINGS = OperatorSettings(
    default_image="registry.example/specdec/engine:1", image_prefixes=("registry.example/specdec/",)
)
READING = {"get", "list", "watch"}


class _Response:
    def __init__(self, status: int, body: Any, news: Stream | None = None) -> None:
        self.status, self._text = status, b"<html>" if status == 0 else json.dumps(body).encode()
        self.status = self.status or 200
        self._news = news or Garbage()

    @property
    def content(self) -> Stream | Garbage:
        return self._news

    async def read(self) -> bytes:
        return self._text

    def close(self) -> None:
        self._news.close()


@dataclass
class Connection:
    """What `Kube` sends its requests by, through the network."""

    process: Process

    @property
    def world(self) -> World:
        return self.process.world

    async def send(
        self, method: str, path: str, given: Mapping[str, str], _headers: Any, sent: bytes | None
    ) -> _Response:
        query = dict(given)
        asked, body = request(method, path, query), json.loads(sent or b"null")

        async def deliver() -> _Response:
            before = self.world.server.version
            status, content = self.world.server.answer(asked, query, body)
            if self.world.server.version != before and asked.resource not in ("leases", "events"):
                self.world.network.note(label)
                self.process.late += [label] * self.process.deposed
            news = Stream(self.process, asked.resource, query) if asked.verb == "watch" else None
            return _Response(status, content, news)

        label = f"{asked.verb} {asked.resource} {asked.name}".rstrip()
        channel = Channel.READ if asked.verb in READING else Channel.WRITE
        if asked.resource == "leases":
            channel = Channel.LEASE
        await self.process.awake.wait()
        answer = await self.world.network.carry(channel, label, deliver, _spoiled)
        await self.process.awake.wait()
        return answer


def _spoiled(status: int) -> _Response:
    return _Response(status, {"message": "a fault made on purpose"})


@dataclass
class Process:
    """One life."""

    world: World
    identity: str
    epoch: int = 0
    complaints: list[str] = field(default_factory=list)
    """What makes /healthz fail: the kubelet restarts the process then."""
    awake: asyncio.Event = field(default_factory=asyncio.Event)
    """Cleared, nothing goes out or comes in: the process was stopped by a signal, or its node stands still."""
    late: list[str] = field(default_factory=list)
    """What it changed after another process had taken the Lease."""
    _task: asyncio.Task[None] | None = None
    _listening: Any = None

    def start(self) -> None:
        """Begin."""
        self.awake.set()
        self._task = asyncio.create_task(self._run())

    def kill(self) -> None:
        """End at once, as SIGKILL does: nothing is given back or finished."""
        if self._listening in self.world.server.listeners:
            self.world.server.listeners.remove(self._listening)
        if self._task is not None:
            self._task.cancel()

    @property
    def ended(self) -> bool:
        """Whether it is gone."""
        return self._task is not None and self._task.done()

    @property
    def deposed(self) -> bool:
        """Whether another process has taken the Lease since this one had it."""
        lease = self.world.server.get(LEASE, SETTINGS.namespace, "specdec-operator")
        return lease is not None and lease["spec"]["leaseTransitions"] > self.epoch

    async def _run(self) -> None:
        time = asyncio.get_running_loop().time
        clock = Clock(now=time, monotonic=time)
        lease = Lease(Kube(Connection(self)), clock, SETTINGS.namespace, self.identity)
        await lease.acquire()
        self.epoch = lease.epoch
        session: Any = Session(self)
        deciding = main.decide(SETTINGS, lease, session, self.complaints, self._watch)
        await main._first_end(lease.keep(), deciding)

    async def _watch(self, store: Store, wake: Wake, unwatchable: frozenset[Kind]) -> None:
        """Watch the children as the operator does, and the servers as kopf does."""
        known = asyncio.Event()
        children = watches.of_children(Kube(Connection(self)), store, wake, (), unwatchable)
        await main._first_end(watches.run_all(children, known), self._servers(store, wake, known))

    async def _servers(self, store: Store, wake: Wake, known: asyncio.Event) -> None:
        queue: asyncio.Queue[tuple[str, Manifest]] = asyncio.Queue()
        await known.wait()
        self._listening = lambda event, manifest: queue.put_nowait((event, manifest))
        there = self.world.server.of(SPEC_DECODE_SERVER)
        self.world.server.listeners.append(self._listening)
        for manifest in there:
            take(SPEC_DECODE_SERVER, None, json.loads(json.dumps(manifest)), store, wake)
        while True:
            event, manifest = await queue.get()
            if manifest["kind"] != SPEC_DECODE_SERVER.kind:
                continue
            await asyncio.sleep(NEWS_SECONDS)
            await self.awake.wait()
            body = json.loads(json.dumps(manifest))
            fault = self.world.network.here(
                Channel.NEWS, f"{event} {SPEC_DECODE_SERVER.plural} {body['metadata']['name']}"
            )
            news = (SPEC_DECODE_SERVER, event, body, store, wake)
            match fault:
                case Fault.CRASH_BEFORE:
                    self.kill()
                case Fault.LATE | Fault.DEAF:
                    seconds = LATE_NEWS_SECONDS if fault is Fault.LATE else WATCH_SECONDS + DEAF_SECONDS
                    asyncio.get_running_loop().call_later(seconds, take, *news)
                case Fault.DROPPED:
                    pass
                case _:  # kopf begins a watch that breaks again where it ended
                    take(*news)
                    if fault is Fault.TWICE:
                        take(*news)
