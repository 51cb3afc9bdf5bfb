"""Everything that goes between the operator and the rest passes here, is counted, and may meet one fault.

A fault's place is a channel and a number in it, so that the same place can be met again by whoever repeats a run.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeVar

import aiohttp

T = TypeVar("T")
SOON_SECONDS = 4.0
"""How long what is late is under way: more than a pass, less than the deadline of a request."""
NEVER_SECONDS = 60.0
"""Longer than any deadline: whoever waits for it has long given up."""


class Channel(StrEnum):
    """What is under way."""

    WRITE = "write"
    """A write to the API server."""
    READ = "read"
    """A get or list."""
    COMMAND = "command"
    """A signed command to an agent."""
    POLL = "poll"
    """A question for an agent's status."""
    LEASE = "lease"
    """A look at the Lease, or its renewal."""
    NEWS = "news"
    """An event of a watch."""


class Fault(StrEnum):
    """What happens to it."""

    CRASH_BEFORE = "the operator dies before it"
    CRASH_AFTER = "the operator dies after it, before the answer"
    UNAVAILABLE = "503, nothing done"
    THROTTLED = "429, nothing done"
    CONFLICT = "409, nothing done"
    LOST = "the connection breaks, nothing done"
    ANSWER_LOST = "done, but the connection breaks before the answer"
    SLOW = "done, the answer comes late"
    HUNG = "no answer at all, done long after everybody gave up"
    OVERTAKEN = "it breaks for the sender and arrives later nevertheless"
    TWICE = "it arrives twice"
    GARBLED = "the answer is no JSON"
    STALE = "the answer of the time before comes again"
    DROPPED = "it is never delivered"
    LATE = "it comes after what came behind it"
    BROKEN = "its watch breaks before it"
    DEAF = "its watch stays open and says nothing any more"
    GONE = "its watch ends before it, and what has happened is forgotten"


FAULTS: dict[Channel, tuple[Fault, ...]] = {
    Channel.WRITE: (
        Fault.CRASH_BEFORE, Fault.CRASH_AFTER, Fault.UNAVAILABLE, Fault.THROTTLED, Fault.CONFLICT, Fault.LOST,
        Fault.ANSWER_LOST, Fault.SLOW, Fault.HUNG, Fault.OVERTAKEN, Fault.TWICE, Fault.GARBLED,
    ),
    Channel.COMMAND: (
        Fault.CRASH_BEFORE, Fault.CRASH_AFTER, Fault.LOST, Fault.ANSWER_LOST, Fault.SLOW, Fault.HUNG,
        Fault.OVERTAKEN, Fault.TWICE, Fault.GARBLED,
    ),
    Channel.READ: (Fault.CRASH_AFTER, Fault.UNAVAILABLE, Fault.HUNG, Fault.GARBLED),
    Channel.POLL: (Fault.CRASH_AFTER, Fault.LOST, Fault.SLOW, Fault.HUNG, Fault.STALE, Fault.GARBLED),
    Channel.LEASE: (Fault.CRASH_AFTER, Fault.UNAVAILABLE, Fault.CONFLICT, Fault.ANSWER_LOST, Fault.HUNG, Fault.GARBLED),
    Channel.NEWS: (
        Fault.CRASH_BEFORE, Fault.DROPPED, Fault.LATE, Fault.TWICE, Fault.BROKEN, Fault.DEAF, Fault.GONE,
    ),
}  # fmt: skip


REFUSALS = {Fault.UNAVAILABLE: 503, Fault.THROTTLED: 429, Fault.CONFLICT: 409}
DONE_FIRST = {Fault.CRASH_AFTER, Fault.ANSWER_LOST, Fault.GARBLED, Fault.TWICE}


@dataclass(frozen=True)
class Place:
    """Where a fault happens, and which."""

    channel: Channel
    number: int
    fault: Fault


@dataclass
class Network:
    """Carries, counts, and spoils what it was told to spoil."""

    place: Place | None = None
    kill: Callable[[], None] = lambda: None
    """Ends the operator at once."""
    counting: bool = False
    """Only what happens from the story's turn on has a number."""
    seen: Counter[Channel] = field(default_factory=Counter)
    labels: dict[tuple[Channel, int], str] = field(default_factory=dict)
    met: bool = False
    away: asyncio.Event | None = None
    """While the API server is away: set when it is back."""
    hung: bool = False
    """Whether it takes what is sent to it while it is away, and says nothing."""
    broken: list[Callable[[], None]] = field(default_factory=list)
    """Called when connections to the API server break."""
    last_change: float = 0.0
    """When something was last written or told, a Lease and a Confirm apart."""
    changes: list[str] = field(default_factory=list)
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    _answers: dict[str, Any] = field(default_factory=dict)
    _under_way: list[asyncio.Task[None]] = field(default_factory=list)

    def outage(self, *, hung: bool) -> None:
        """Let the API server be away: connections break, or nothing is heard on them any more."""
        self.away, self.hung = asyncio.Event(), hung
        for tell in list(self.broken) if not hung else ():
            tell()

    def back(self) -> None:
        """End it."""
        if self.away is not None:
            self.away.set()
        self.away = None

    async def _reached(self, channel: Channel) -> None:
        """Say whether the API server can be reached, if that is who is meant."""
        if self.away is None or channel in (Channel.COMMAND, Channel.POLL):
            return
        if self.hung:
            await self.away.wait()
        raise aiohttp.ServerDisconnectedError

    def here(self, channel: Channel, label: str) -> Fault | None:
        """Count what is under way; says which fault it meets."""
        if not self.counting:
            return None
        number = self.seen[channel]
        self.seen[channel] += 1
        self.labels[channel, number] = label
        if self.place is None or (self.place.channel, self.place.number) != (channel, number):
            return None
        self.met = True
        return self.place.fault

    def note(self, label: str) -> None:
        """Remember a change."""
        self.last_change = asyncio.get_running_loop().time()
        self.changes.append(label)
        self.changed.set()

    async def carry(
        self, channel: Channel, label: str, deliver: Callable[[], Awaitable[T]], spoiled: Callable[[int], T]
    ) -> T:
        """Carry a request there and its answer back; `spoiled` makes an answer of a status code, 0 for no JSON."""
        await self._reached(channel)
        fault = self.here(channel, label)
        if fault in REFUSALS:
            return spoiled(REFUSALS[fault])
        if fault is Fault.LOST:
            raise aiohttp.ServerDisconnectedError
        if fault is Fault.CRASH_BEFORE:
            await self._crash()
        if fault in DONE_FIRST:
            await deliver()
        match fault:
            case Fault.CRASH_AFTER:
                await self._crash()
            case Fault.ANSWER_LOST:
                raise aiohttp.ServerDisconnectedError
            case Fault.GARBLED:
                return spoiled(0)
        answer = await self._delayed(fault, label, deliver)
        self._answers[label] = answer
        return answer

    async def _delayed(self, fault: Fault | None, label: str, deliver: Callable[[], Awaitable[T]]) -> T:
        match fault:
            case Fault.OVERTAKEN:
                self._later(SOON_SECONDS, deliver)
                raise aiohttp.ServerDisconnectedError
            case Fault.HUNG:
                self._later(NEVER_SECONDS / 2, deliver)
                await asyncio.sleep(NEVER_SECONDS)
                raise aiohttp.ServerDisconnectedError
            case Fault.STALE if label in self._answers:
                earlier: T = self._answers[label]
                return earlier
        answer = await deliver()
        if fault is Fault.SLOW:
            await asyncio.sleep(SOON_SECONDS)
        return answer

    def _later(self, seconds: float, deliver: Callable[[], Awaitable[Any]]) -> None:
        async def arrive() -> None:
            await deliver()

        loop = asyncio.get_running_loop()
        loop.call_later(seconds, lambda: self._under_way.append(loop.create_task(arrive())))

    async def _crash(self) -> None:
        self.kill()
        await asyncio.get_running_loop().create_future()
