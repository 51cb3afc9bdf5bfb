"""One job at a time, with two things that end a job's wait: a newer command, and the dead-man switch."""

from __future__ import annotations

import asyncio
import time
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
        self.deadline: float | None = None
        self._when_due = when_due
        self._queue: asyncio.Queue[tuple[Job, bool]] = asyncio.Queue()
        self._interrupt = asyncio.Event()
        self._interrupting = 0
        """Queued jobs that end the wait of the one before them."""

    def put(self, job: Job, *, interrupt: bool = False) -> None:
        """Queue a job; one that interrupts ends the wait of the running one."""
        self._queue.put_nowait((job, interrupt))
        if interrupt:
            self._interrupting += 1
            self._interrupt.set()

    async def next(self) -> Job:
        """Wait for the next job; the deadline is one as well."""
        while True:
            try:
                job, interrupting = await asyncio.wait_for(self._queue.get(), self.left())
            except TimeoutError:
                # It may have been moved while it was waited.
                if self.left() != 0:
                    continue
                return self._when_due
            self._interrupting -= interrupting
            if not self._interrupting:
                self._interrupt.clear()
            return job

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
        newer = asyncio.create_task(self._interrupt.wait())
        try:
            while not (task.done() or newer.done() or self.left() == 0):
                await asyncio.wait({task, newer}, timeout=self.left(), return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                return task.result()
            raise SupersededError
        finally:
            for waiting in (task, newer):
                waiting.cancel()
            await asyncio.gather(task, newer, return_exceptions=True)
