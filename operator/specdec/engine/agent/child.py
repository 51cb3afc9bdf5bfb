"""SGLang as a child process group: its output, its progress, its end.

A thread reads the output and writes it on: if the container's log is stuck, SGLang waits, the agent does not.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from typing import TYPE_CHECKING

from specdec.engine.agent.phases import Mark, read_line
from specdec.engine.protocol import Phase

if TYPE_CHECKING:
    from collections.abc import Callable

    from specdec.engine.agent.launch import Launch

TAIL_LINES = 200
LONGEST_LINE = 4096
STOP_SECONDS = 15.0
"""SGLang takes up to 12 s to stop."""
PIPE_BYTES = 1 << 16


class Child:
    """One running SGLang."""

    def __init__(self, process: subprocess.Popen[bytes], on_mark: Callable[[Mark], None]) -> None:
        self.pid = process.pid
        self.tail: deque[str] = deque(maxlen=TAIL_LINES)
        self.mark = Mark(Phase.LOADING_WEIGHTS, "SGLang's process was started")
        self.progress_at = time.monotonic()
        self._loop = asyncio.get_running_loop()
        self.exited: asyncio.Future[int] = self._loop.create_future()
        self._process = process
        self._on_mark = on_mark
        self._reader = threading.Thread(target=self._read, name="engine-output", daemon=True)
        self._waiter = threading.Thread(target=self._wait, name="engine-exit", daemon=True)
        self._reader.start()
        self._waiter.start()

    @classmethod
    def start(cls, launch: Launch, on_mark: Callable[[Mark], None]) -> Child:
        """Start SGLang in a process group of its own.

        Raises
        ------
        OSError
            The program can't be executed.
        """
        process = subprocess.Popen(  # noqa: S603 - every argument is rendered by `launch`
            launch.argv,
            env=launch.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        return cls(process, on_mark)

    @property
    def running(self) -> bool:
        """Whether it has not ended."""
        return not self.exited.done()

    async def ended(self) -> int:
        """Wait for its exit code."""
        return await asyncio.shield(self.exited)

    async def stop(self, seconds: float = STOP_SECONDS) -> None:
        """End the whole group: asked first, then killed."""
        self._signal(signal.SIGTERM)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asyncio.shield(self.exited), seconds)
        await self.kill()

    async def kill(self) -> None:
        """Kill the whole group at once, also what a dead leader left behind."""
        self._signal(signal.SIGKILL)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asyncio.shield(self.exited), 5)

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)

    def _wait(self) -> None:
        code = self._process.wait()
        # The last lines say why: let the reader finish, unless a grandchild keeps the pipe open.
        self._reader.join(timeout=2)
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._ended, code)

    def _ended(self, code: int) -> None:
        if not self.exited.done():
            self.exited.set_result(code)

    def _read(self) -> None:
        pipe = self._process.stdout
        if pipe is None:
            return
        rest = b""
        while chunk := os.read(pipe.fileno(), PIPE_BYTES):
            with contextlib.suppress(OSError, ValueError):
                sys.stdout.buffer.write(chunk)
                sys.stdout.buffer.flush()
            # Progress bars end their lines with a carriage return.
            *lines, rest = re.split(rb"[\r\n]+", rest + chunk)
            rest = rest[-LONGEST_LINE:]
            for line in lines:
                self._note(line[:LONGEST_LINE].decode(errors="replace"))
        pipe.close()

    def _note(self, line: str) -> None:
        if not line.strip():
            return
        self.tail.append(line)
        mark = read_line(line, self.mark.phase)
        if mark is None or mark == self.mark:
            return
        self.mark = mark
        self.progress_at = time.monotonic()
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._on_mark, mark)
