"""The operator's entry point: connects, takes the Lease, watches, and ends when any part of it ends."""

from __future__ import annotations

import asyncio
import gc
import logging
import sys
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from typing import Any

import aiohttp
import kopf
from pydantic import ValidationError

from specdec.controller import access, handlers, keys, watches, web
from specdec.controller.agents import Agents, HttpAgents
from specdec.controller.apply import Applier
from specdec.controller.claims import Claims
from specdec.controller.clock import Clock
from specdec.controller.events import EventPoster
from specdec.controller.judging import LedgerJudge
from specdec.controller.kinds import Kind
from specdec.controller.kube import Kube
from specdec.controller.lease import Lease, LeaseLostError
from specdec.controller.loop import Loops, ServerLoop
from specdec.controller.poller import Poller
from specdec.controller.settings import LogFormat, OperatorSettings, unique_identity
from specdec.controller.status import StatusWriter
from specdec.controller.store import Key, Store
from specdec.controller.watchdog import Watchdog
from specdec.controller.watches import Wake
from specdec.rollout.plan import plan
from specdec.rollout.world import Settings

log = logging.getLogger(__name__)

YOUNG_OBJECTS = 10_000
"""So many new objects before Python looks for cycles: its own 700 took a tenth of the CPU with 1,200 engines."""


@dataclass(frozen=True)
class Parts:
    """What the loops of all servers share."""

    settings: Settings
    kube: Kube
    store: Store
    clock: Clock
    lease: Lease
    agents: Agents
    poller: Poller
    claims: Claims
    slots: asyncio.Semaphore
    resumed: asyncio.Event

    def loop(self, key: Key, uid: str) -> ServerLoop:
        """Make the loop of one server."""
        lease, clock = self.lease, self.clock
        return ServerLoop(
            key=key,
            uid=uid,
            settings=self.settings,
            store=self.store,
            claims=self.claims,
            poller=self.poller,
            applier=Applier(
                key=key,
                kube=self.kube,
                store=self.store,
                agents=self.agents,
                poller=self.poller,
                epoch=lambda: lease.epoch,
                may_decide=lease.held,
                clock=clock,
            ),
            status=StatusWriter(self.kube, self.store, clock),
            events=EventPoster(self.kube, clock, lease.identity),
            judge=LedgerJudge(key),
            planner=plan,
            clock=clock,
            may_decide=lease.held,
            slots=self.slots,
            resumed=self.resumed,
        )


async def run(settings: OperatorSettings) -> None:
    """Run until SIGTERM, or until something that must run has ended."""
    clock = Clock()
    kube = await Kube.connect()
    lease = Lease(kube, clock, settings.namespace, unique_identity(settings))
    complaints: list[str] = []
    runner = await web.serve(settings.http_host, settings.http_port, lambda: "; ".join(complaints))
    try:
        await lease.acquire()
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
            watch = partial(_watch, settings, lease)
            await _first_end(lease.keep(), decide(settings, lease, session, complaints, watch))
    finally:
        await lease.release()
        await runner.cleanup()
        await kube.close()


Watch = Callable[[Store, Wake, frozenset[Kind]], Coroutine[Any, Any, None]]
"""Fills a store and wakes the servers' loops, for ever; some kinds can't be watched."""


async def decide(
    settings: OperatorSettings,
    lease: Lease,
    session: aiohttp.ClientSession,
    complaints: list[str],
    watch: Watch,
) -> None:
    """Watch, poll and run the loops, while the Lease is held."""
    kube, clock = lease.kube, lease.clock
    unwatchable = await access.settle(kube, settings.namespaces)
    known = await keys.load(kube, settings.namespace)
    shared = Settings(settings.default_image, settings.image_prefixes, known.public)
    store, agents = Store(), HttpAgents(session, known.signing)
    loops = Loops(store)
    poller = Poller(agents, store, clock, loops.wake, settings.pollers)
    slots = asyncio.Semaphore(settings.workers)
    parts = Parts(
        shared, kube, store, clock, lease, agents, poller, Claims(kube, clock), slots, loops.resumed
    )
    loops.make, lease.regained = parts.loop, loops.resume
    watchdog = Watchdog(
        kube, store, loops.wake, settings.namespaces, unwatchable, settings.resync_seconds, complaints
    )
    try:
        await _first_end(watch(store, loops.wake, unwatchable), poller.run(), watchdog.run())
    finally:
        await loops.stop()


async def _watch(
    settings: OperatorSettings, lease: Lease, store: Store, wake: Wake, unwatchable: frozenset[Kind]
) -> None:
    """Watch the children, and once all of them are known, so that no pass is blind, the servers with kopf."""
    known = asyncio.Event()

    async def servers() -> None:
        await known.wait()
        await kopf.operator(
            registry=handlers.registry(store, wake),
            settings=handlers.settings(),
            standalone=True,
            identity=lease.identity,  # else kopf looks the user's name up, and an image's user has none
            clusterwide=not settings.namespaces,
            namespaces=settings.namespaces,
        )

    children = watches.of_children(lease.kube, store, wake, settings.namespaces, unwatchable)
    await _first_end(watches.run_all(children, known), servers())


async def _first_end(*parts: Coroutine[Any, Any, None]) -> None:
    """Run all until one ends, end the others, and raise what it raised."""
    tasks = [asyncio.create_task(part) for part in parts]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in done:
        task.result()


def _spare_collections() -> None:
    """Keep all that is imported out of Python's search for cycles, which stopped everything for 0.15 s with 1,200 engines."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS)


def main() -> None:
    """Run the operator; settings come from the environment."""
    try:
        settings = OperatorSettings()  # type: ignore[call-arg]  # the environment has them
    except ValidationError as error:
        names = ", ".join(f"SPECDEC_{str(item['loc'][0]).upper()}: {item['msg']}" for item in error.errors())
        sys.exit(f"specdec-operator: {names}")
    json_lines = settings.log_format is LogFormat.JSON
    kopf.configure(log_format=kopf.LogFormat.JSON if json_lines else kopf.LogFormat.PLAIN)
    logging.getLogger().setLevel(settings.log_level)
    for chatty in ("kopf", "aiohttp", "asyncio"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
    _spare_collections()
    try:
        asyncio.run(run(settings))
    except LeaseLostError as error:
        sys.exit(f"specdec-operator: {error}")


if __name__ == "__main__":
    main()
