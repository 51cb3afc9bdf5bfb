"""One job at a time, with two things that end a job's wait: a newer command, and the dead-man switch."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    Job = Callable[[], Coroutine[Any, Any, None]]

Result = TypeVar("Result")


class SupersededError(Exception):
    """A newer command or the dead-man switch ended the wait."""


class Jobs:
    """Jobs in the order in which they came, and a deadline by the monotonic clock that anyone may move."""

    def __init__(self, when_due: Job, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self._deadline: float | None = None
        self._when_due = when_due
        self._queue: deque[tuple[Job, bool]] = deque()
        self._interrupting = 0
        """Queued jobs that end the wait of the one before them."""
        self._changed = asyncio.Event()
        """Set by all that may end a wait."""

    @property
    def deadline(self) -> float | None:
        """When the dead-man switch acts, by the clock; None while it is off. Whoever waits hears of a new one."""
        return self._deadline

    @deadline.setter
    def deadline(self, deadline: float | None) -> None:
        self._deadline = deadline
        self._changed.set()

    def put(self, job: Job, *, interrupt: bool = False) -> None:
        """Queue a job; one that interrupts ends the wait of the running one."""
        self._queue.append((job, interrupt))
        self._interrupting += interrupt
        self._changed.set()

    async def next(self) -> Job:
        """Wait for the next job; the deadline is one as well."""
        while self.left() != 0:
            if self._queue:
                job, interrupting = self._queue.popleft()
                self._interrupting -= interrupting
                return job
            await self._change()
        return self._when_due

    def left(self) -> float | None:
        """Seconds until the deadline; None without one."""
        return None if self.deadline is None else max(0.0, self.deadline - self.clock())

    async def wait(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Wait for work inside a job.

        Raises
        ------
        SupersededError
            A newer command came, or the deadline; the work was cancelled.
        """
        task = asyncio.create_task(work)
        task.add_done_callback(lambda _: self._changed.set())
        try:
            while not (task.done() or self._interrupting or self.left() == 0):
                await self._change()
            if task.done():
                return task.result()
            raise SupersededError
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _change(self) -> None:
        """Wait until something may have changed, at most to the deadline."""
        self._changed.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.left()):
                await self._changed.wait()
