"""One serial loop for each server: observe, judge, plan, apply, report, wait.

Level-based: a pass looks at everything as it is now and never at what has happened. Two passes over one
server never overlap. A pass that fails is repeated with a growing delay, at most 30 s apart; what it got
done before it failed is seen by the next one and not done again.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import logging
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from math import inf
from typing import Protocol

from specdec.api.conditions import Reason
from specdec.controller import metrics
from specdec.controller.apply import LOST, Applier
from specdec.controller.claims import Claims
from specdec.controller.clock import Clock
from specdec.controller.events import EventPoster
from specdec.controller.kube import ConflictError, KubeError
from specdec.controller.observe import UnreadableError, named_claims, observed, world
from specdec.controller.poller import Poller
from specdec.controller.report import unanswered, unreadable, with_failures
from specdec.controller.status import NUMBER_SECONDS, StatusWriter
from specdec.controller.store import Key, Store
from specdec.controller.wakeup import Wakeup
from specdec.rollout.now import Now
from specdec.rollout.world import Event, Evidence, Plan, RevisionRecord, Settings, World

log = logging.getLogger(__name__)

BACKOFF_SECONDS = 0.5
BACKOFF_CAP_SECONDS = 30.0
PAUSE_SECONDS = 0.1
"""Between two passes, whatever happens: news that a pass itself causes must not make it hot."""
CONFLICT_SECONDS = 0.2
"""After a conflict the watch needs a moment to bring the newer version."""


class Judge(Protocol):
    """Turns what the agents counted into verdicts; remembers one server's counters."""

    def evidence(self, world: World, now: float) -> Evidence:
        """Verdicts by revision."""


Planner = Callable[[World, Evidence, float], Plan]
Guard = Callable[[], bool]


@dataclass
class ServerLoop:
    """The loop of one server."""

    key: Key
    uid: str
    settings: Settings
    store: Store
    claims: Claims
    poller: Poller
    applier: Applier
    status: StatusWriter
    events: EventPoster
    judge: Judge
    planner: Planner
    clock: Clock
    may_decide: Guard
    slots: asyncio.Semaphore
    resumed: asyncio.Event = field(default_factory=asyncio.Event)
    """Pulsed when the Lease is held again: what failed without it is tried again at once."""
    woken: Wakeup = field(default_factory=Wakeup)
    news: int = 0
    """Since the last pass began."""
    failures: int = 0
    told: tuple[RevisionRecord, ...] | None = None
    """The records that stood before a pass which told of none: what has become of them since is still to tell."""

    async def run(self) -> None:
        """Go on until the server is gone or on its way out: then there is nothing to decide."""
        await self.poller.look(self.key)
        while self.store.wanted(self.key) == self.uid:
            async with self.slots:
                self._begin()
                wait = await self._guarded()
            if self.news == self.store.echoes(self.key):
                self.woken.clear()  # the watch told of our own writes before their answers did
            if self.failures:
                await _until(self.resumed, wait)  # news must not turn a failing loop into a hot one
            else:
                await asyncio.sleep(PAUSE_SECONDS)
                await self.woken.wait(wait)

    def wake(self) -> None:
        """Tell it that something changed."""
        self.news += 1
        self.woken.set()

    def _begin(self) -> None:
        """Forget what came before a pass: it sees everything."""
        self.woken.clear()
        self.news = 0
        self.store.echoes(self.key)

    async def _guarded(self) -> float:
        """Run one pass; whatever it raises is its own matter. Returns how long to wait."""
        name = "/".join(self.key)
        started = self.clock.monotonic()
        outcome = "done"
        try:
            failed, wait = await self._pass()
        except ConflictError as error:
            log.info("%s: %s", name, error)
            outcome, failed, wait = "conflict", [], CONFLICT_SECONDS
        except KubeError as error:
            log.warning("%s: %s", name, error)
            outcome, failed, wait = "failed", [str(error)], 0.0
            if isinstance(error, UnreadableError):
                await self._say_unreadable(str(error))
        except Exception:
            log.exception("%s: this pass failed", name)
            outcome, failed, wait = "failed", ["the pass failed"], 0.0
        self.failures = self.failures + 1 if failed else 0
        metrics.RECONCILE_SECONDS.labels(outcome).observe(self.clock.monotonic() - started)
        return backoff(self.failures) if failed else wait

    async def _pass(self) -> tuple[list[str], float]:
        if not self.may_decide():
            return [LOST], 0.0
        seen = await self._observe()
        now = Now(self.clock.now())
        evidence = self.judge.evidence(seen, now)
        plan = self.planner(seen, evidence, now)
        self.poller.set_interval(self.key, plan.poll_seconds)
        carried = await self.applier.carry_out(seen, plan)
        if not self.may_decide():
            return [LOST], 0.0
        for sentence in carried.failed:
            log.warning("%s: %s", "/".join(self.key), sentence)
        planned = plan.status if carried.recorded else unanswered(plan.status, seen.server.status)
        status = with_failures(planned, carried.failed, generation=seen.server.generation, now=now)
        await self.status.write(seen.server, status)
        self.told = None
        metrics.show(self.key, status, plan.events)
        for event in plan.events:
            await self.events.post(seen.server.metadata, event)
        return carried.failed, min(plan.requeue_after, NUMBER_SECONDS if self.status.owes else inf)

    async def _observe(self) -> World:
        server = observed(self.key, self.store)
        views = await self.claims.views(self.key[0], named_claims(server))
        seen = world(
            server,
            self.store,
            settings=self.settings,
            heard=self.poller.heard,
            claim_views=views,
            told=self.told,
        )
        self.told = seen.told if seen.told is not None else seen.revisions
        return seen

    async def _say_unreadable(self, sentence: str) -> None:
        """Say on the object itself that nothing is done for it."""
        found = self.store.server(self.key)
        if found is None or not self.may_decide():
            return
        await self.events.post(found["metadata"], Event("Warning", Reason.INVALID_SPEC, sentence))
        with contextlib.suppress(KubeError):  # its status may be what is not allowed
            await self.status.write_as_it_is(found, unreadable(found, sentence, self.clock.now()))


async def _until(event: asyncio.Event, seconds: float) -> None:
    """Wait for an event, so long at most."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()


def backoff(failures: int) -> float:
    """Delay after so many failures in a row, spread so that servers don't retry in step."""
    seconds = min(BACKOFF_CAP_SECONDS, BACKOFF_SECONDS * 2.0 ** min(failures, 16))
    return seconds * random.uniform(0.75, 1.0)  # noqa: S311 - no secret


@dataclass
class Loops:
    """All running loops."""

    store: Store
    make: Callable[[Key, str], ServerLoop] | None = None
    """Set once everything that a loop needs is there; nothing wakes a loop earlier."""
    resumed: asyncio.Event = field(default_factory=asyncio.Event)
    """What a failing loop waits for, beside its delay."""
    _running: dict[Key, tuple[ServerLoop, asyncio.Task[None]]] = field(default_factory=dict)
    _context: contextvars.Context = field(default_factory=contextvars.Context)
    """Of all loops. A copy of the caller's, which is a handler of kopf's, would keep the object that it was called with."""

    def wake(self, key: Key) -> None:
        """Tell a server's loop that something changed; start it where there is none."""
        wanted = self.store.wanted(key)
        running = self._running.get(key)
        if running is not None and not running[1].done():
            running[0].wake()
            if running[0].uid == wanted:
                return
        if wanted is not None:
            self._start(key, wanted)

    def _start(self, key: Key, uid: str) -> None:
        if self.make is None:
            raise RuntimeError("a server was seen before its loop could be made")
        before = self._running.get(key)
        loop = self.make(key, uid)
        task = asyncio.create_task(_after(before[1] if before else None, loop.run), context=self._context)
        self._running[key] = (loop, task)
        metrics.SERVERS.set(len(self._running))
        task.add_done_callback(lambda done: self._ended(key, done), context=self._context)

    def _ended(self, key: Key, task: asyncio.Task[None]) -> None:
        if key in self._running and self._running[key][1] is task:
            self._running.pop(key)[0].poller.forget(key)
            metrics.forget(key)
        metrics.SERVERS.set(len(self._running))
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("%s: the loop ended: %s", "/".join(key), error)

    def resume(self) -> None:
        """Let every loop that failed try again now."""
        self.resumed.set()
        self.resumed.clear()  # who waited is awake

    async def stop(self) -> None:
        """Cancel every loop and wait for its end."""
        tasks = [task for _, task in self._running.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _after(earlier: asyncio.Task[None] | None, run: Callable[[], Awaitable[None]]) -> None:
    """Run once an earlier object of the same name has ended its pass."""
    if earlier is not None:
        await asyncio.wait([earlier])
    await run()
