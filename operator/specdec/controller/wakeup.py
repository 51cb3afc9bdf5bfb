"""What the loop of a server sleeps by: thousands of them wait all the time, so one takes little memory."""

from __future__ import annotations

import asyncio


class Wakeup:
    """A flag that one task waits for, so long at most.

    An asyncio.Event keeps a queue of waiters, and a timeout around it a scope of its own: together a kilobyte.
    """

    __slots__ = ("_set", "_waiter")

    def __init__(self) -> None:
        self._set = False
        self._waiter: asyncio.Future[None] | None = None

    def set(self) -> None:
        """Wake who waits; whoever waits later does not."""
        self._set = True
        if self._waiter is not None:
            _end(self._waiter)

    def clear(self) -> None:
        """Let who comes now wait; who was woken already stays awake."""
        self._set = False

    async def wait(self, seconds: float) -> None:
        """Wait until it is set, so long at most."""
        if self._set:
            return
        loop = asyncio.get_running_loop()
        self._waiter = waiter = loop.create_future()
        timer = loop.call_later(seconds, _end, waiter)
        try:
            await waiter
        finally:
            timer.cancel()
            self._waiter = None


def _end(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
