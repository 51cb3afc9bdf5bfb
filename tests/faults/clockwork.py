"""Virtual time: an event loop whose clock jumps to the next thing that is due, so that minutes take milliseconds."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class _NoWaiting(selectors.DefaultSelector):
    """Lets the loop's clock go on instead of waiting."""

    loop: VirtualLoop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise RuntimeError("everybody waits and nothing is due: a deadlock")
        self.loop.seconds += max(timeout, 0.0)
        return super().select(0)


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop in virtual time."""

    def __init__(self, begin: float) -> None:
        self.seconds = begin
        selector = _NoWaiting()
        selector.loop = self
        super().__init__(selector)
        # Seconds since 1970 are too coarse for the usual nanosecond: what is due now would be due for ever.
        self._clock_resolution = 1e-6

    def time(self) -> float:
        return self.seconds


def run(main: Coroutine[Any, Any, T], begin: float = 0.0) -> T:
    """Run to the end in virtual time; tasks that are left are ended."""
    with asyncio.Runner(loop_factory=lambda: VirtualLoop(begin)) as runner:
        return runner.run(main)
