"""One poller for all engines: asks each agent as often as its server's plan says.

At rest that is every 5 s. With a candidate it is a long poll: the agent answers as soon as its state
changes, at the latest after the interval with fresh counters. A server's loop is woken only by news.

At rest each server has a phase of its own in the round. So its engines are asked together, and what they have
counted is one piece of news, not one for each; and the servers stay spread, whatever once held them up together.
"""

from __future__ import annotations

import asyncio
import logging
import zlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from specdec.controller import metrics
from specdec.controller.agents import AgentError, Agents
from specdec.controller.clock import Clock
from specdec.controller.kinds import POD
from specdec.controller.observe import Heard
from specdec.controller.store import Key, Store
from specdec.engine.protocol import Status
from specdec.resources.labels import is_engine

log = logging.getLogger(__name__)

REST_SECONDS = 5.0
"""Interval where no plan has said another one."""
LONG_POLL_BELOW = 2.0
"""Intervals shorter than this are long polls."""
TICK_SECONDS = 0.05
FIRST_SECONDS = 1.0
"""Interval while an agent has not answered yet: a pod that starts is seen within a second."""


@dataclass(slots=True)
class _Pod:
    """One pod's place in the round."""

    server: Key
    address: str
    due: float
    busy: asyncio.Task[None] | None = None


def next_due(server: Key, interval: float, now: float) -> float:
    """When an agent that is asked now is asked again: at rest in its server's phase, half an interval from now at the earliest."""
    if interval < LONG_POLL_BELOW:
        return now + interval
    phase = zlib.crc32("/".join(server).encode()) / (1 << 32) * interval
    left = interval - (now - phase) % interval
    return now + (left if left >= interval / 2 else left + interval)


@dataclass
class Poller:
    """Asks the agents and remembers what they said."""

    agents: Agents
    store: Store
    clock: Clock
    wake: Callable[[Key], None]
    slots: int = 64
    heard: dict[str, Heard] = field(default_factory=dict)
    """By pod UID."""
    _pods: dict[str, _Pod] = field(default_factory=dict)
    _intervals: dict[Key, float] = field(default_factory=dict)
    _asked: Counter[Key] = field(default_factory=Counter)
    """Questions to a server's agents that are under way."""
    _counted: set[Key] = field(default_factory=set)
    """Servers whose agents have counted on, which their loops have not heard yet."""
    _followed: int = -1
    """Version of the store's pods that the round knows."""

    def set_interval(self, server: Key, seconds: float) -> None:
        """Ask a server's agents this often; a shorter interval counts at once."""
        if seconds < self._intervals.get(server, REST_SECONDS):
            for pod in self._pods.values():
                if pod.server == server:
                    pod.due = 0.0
        self._intervals[server] = seconds

    def forget(self, server: Key) -> None:
        """Forget a server that has no loop any more."""
        self._intervals.pop(server, None)

    async def run(self) -> None:
        """Go round for ever."""
        slots = asyncio.Semaphore(self.slots)
        try:
            while True:
                self._follow_pods()
                self._begin(slots)
                await asyncio.sleep(TICK_SECONDS)
        finally:
            for pod in self._pods.values():
                if pod.busy is not None:
                    pod.busy.cancel()

    def _begin(self, slots: asyncio.Semaphore) -> None:
        """Ask all whose time has come."""
        now = self.clock.monotonic()
        for uid, pod in self._pods.items():
            if pod.due <= now and (pod.busy is None or pod.busy.done()):
                pod.due = next_due(pod.server, self._interval(uid, pod), now)
                self._asked[pod.server] += 1
                pod.busy = asyncio.create_task(self._ask_in_turn(uid, pod, slots))

    async def _ask_in_turn(self, uid: str, pod: _Pod, slots: asyncio.Semaphore) -> None:
        """Ask one agent; the last one of its server's that are asked tells the loop what all have counted."""
        try:
            await self._ask(uid, pod, slots)
        finally:
            self._asked[pod.server] -= 1
            if not self._asked[pod.server]:
                del self._asked[pod.server]
                if pod.server in self._counted:
                    self._counted.discard(pod.server)
                    self.wake(pod.server)

    async def ask_now(self, uid: str) -> None:
        """Ask one agent before anything else is decided: it has just taken a command."""
        pod = self._pods.get(uid)
        if pod is not None:
            await self._ask(uid, pod, asyncio.Semaphore(1), wait=0.0)

    async def look(self, server: Key) -> None:
        """Ask all agents of a server before its first pass: what serves must not be taken for what starts."""
        self._follow_pods()
        mine = [(uid, pod) for uid, pod in self._pods.items() if pod.server == server]
        await asyncio.gather(*(self._ask(uid, pod, asyncio.Semaphore(1), wait=0.0) for uid, pod in mine))

    def _interval(self, uid: str, pod: _Pod) -> float:
        wanted = self._intervals.get(pod.server, REST_SECONDS)
        return wanted if uid in self.heard else min(wanted, FIRST_SECONDS)

    def _follow_pods(self) -> None:
        """Take pods in that have an address, and forget those that are gone."""
        version = self.store.version(POD)
        if version == self._followed:
            return
        self._followed = version
        current: dict[str, _Pod] = {}
        for kept in self.store.known(POD).values():
            manifest, server = kept.manifest(), kept.server
            address = manifest.get("status", {}).get("podIP", "")
            if not address or server is None or not is_engine(manifest):
                continue
            uid = manifest["metadata"]["uid"]
            known = self._pods.get(uid)
            if known is None or known.address != address:
                known = _Pod(server, address, due=0.0)
            current[uid] = known
        self._pods = current
        self.heard = {uid: heard for uid, heard in self.heard.items() if uid in current}

    async def _ask(self, uid: str, pod: _Pod, slots: asyncio.Semaphore, wait: float | None = None) -> None:
        began = self.clock.monotonic()
        before = self.heard.get(uid)
        interval = self._interval(uid, pod)
        if wait is None:
            wait = interval if interval < LONG_POLL_BELOW and before else 0.0
        async with slots:
            metrics.POLL_LAG_SECONDS.observe(self.clock.monotonic() - began)
            try:
                status = await self.agents.status(
                    pod.address, since=before.status.serial if before else None, wait=wait
                )
            except AgentError as error:
                log.debug("%s", error)
                if before and self.clock.now() - before.at > REST_SECONDS:
                    self.wake(pod.server)  # silence is a state, too
                return
        if status.pod_uid != uid:
            log.warning("the agent at %s says it is pod %s, not %s", pod.address, status.pod_uid, uid)
            return
        status = await self._with_preflight(pod, status, before)
        self.heard[uid] = Heard(status, self.clock.now())
        if before is not None and status == before.status:
            return
        if before is None or interval < LONG_POLL_BELOW or status.serial != before.status.serial:
            self.wake(pod.server)
        else:
            self._counted.add(pod.server)

    async def _with_preflight(self, pod: _Pod, status: Status, before: Heard | None) -> Status:
        """Add what the preflight found: it is asked for once, a status has no room for it."""
        said, known = status.preflight, before.status.preflight if before else None
        if said is None:
            return status
        if known is None or not known.report or (known.revision, known.at) != (said.revision, said.at):
            try:
                known = await self.agents.preflight(pod.address, said.revision)
            except AgentError as error:
                log.debug("%s", error)
                return status
        return status.model_copy(update={"preflight": known})
