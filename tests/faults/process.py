"""One life of the operator: its own entry point, on the network's connections, ended at any moment."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.faults.engines import Session
from tests.faults.network import Channel, Fault
from tests.support.guardedapi import Request, request

from specdec.controller import handlers, main
from specdec.controller.clock import Clock
from specdec.controller.kinds import CHILDREN, KINDS, LEASE, SPEC_DECODE_SERVER, Kind
from specdec.controller.kube import Kube
from specdec.controller.lease import Lease
from specdec.controller.settings import OperatorSettings
from specdec.controller.store import Store

if TYPE_CHECKING:
    from tests.faults.world import World

NEWS_SECONDS = 0.02
LATE_NEWS_SECONDS = 5.0
SETTINGS = OperatorSettings(
    default_image="registry.example/specdec/engine:1", image_prefixes=("registry.example/specdec/",)
)
READING = {"get", "list", "watch"}


class _Stream:
    def close(self) -> None:
        """A watch is left."""


class _Response:
    response = _Stream()

    def __init__(self, status: int, body: Any) -> None:
        self.status, self._text = status, b"<html>" if status == 0 else json.dumps(body).encode()
        self.status = self.status or 200

    async def read(self) -> bytes:
        return self._text


@dataclass
class Connection:
    """What `Kube` asks of the client library, through the network."""

    process: Process

    @property
    def world(self) -> World:
        return self.process.world

    async def param_serialize(self, method: str, path: str, **parts: Any) -> tuple[Any, ...]:
        query = dict(parts["query_params"])
        body = parts["body"]
        return (
            request(method, path, query),
            query,
            json.loads(body if isinstance(body, str) else json.dumps(body)),
        )

    async def call_api(self, asked: Request, query: dict[str, str], body: Any) -> _Response:
        async def deliver() -> _Response:
            before = self.world.server.version
            status, content = self.world.server.answer(asked, query, body)
            if self.world.server.version != before and asked.resource not in ("leases", "events"):
                self.world.network.note(label)
                self.process.late += [label] * self.process.deposed
            return _Response(status, content)

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

    async def _watch(self, store: Store, wake: handlers.Wake, unwatchable: frozenset[Kind]) -> None:
        """Do as kopf does: know all children, then see the servers, then whatever changes."""
        queue: asyncio.Queue[tuple[str, dict[str, Any]]] = asyncio.Queue()
        self._listening = lambda event, manifest: queue.put_nowait((event, manifest))
        known = [item for kind in (*CHILDREN, SPEC_DECODE_SERVER) for item in self.world.server.of(kind)]
        self.world.server.listeners.append(self._listening)
        for manifest in known:
            if _watched(manifest):
                handlers.take(KINDS[manifest["kind"]], None, json.loads(json.dumps(manifest)), store, wake)
        while True:
            event, manifest = await queue.get()
            await asyncio.sleep(NEWS_SECONDS)
            await self.awake.wait()
            if not _watched(manifest):
                continue
            kind, body = KINDS[manifest["kind"]], json.loads(json.dumps(manifest))
            fault = self.world.network.here(Channel.NEWS, f"{event} {kind.plural} {body['metadata']['name']}")
            if fault is Fault.CRASH_BEFORE:
                self.kill()
            elif fault is Fault.LATE:
                asyncio.get_running_loop().call_later(
                    LATE_NEWS_SECONDS, handlers.take, kind, event, body, store, wake
                )
            elif fault is not Fault.DROPPED:
                handlers.take(kind, event, body, store, wake)
                if fault is Fault.TWICE:
                    handlers.take(kind, event, body, store, wake)


def _watched(manifest: dict[str, Any]) -> bool:
    kind = KINDS.get(manifest["kind"])
    if kind is SPEC_DECODE_SERVER:
        return True
    return kind in CHILDREN and kind is not None and kind.label in manifest["metadata"].get("labels", {})
