"""What runs beside a measurement and ends with it: processes, and looks once a second."""

from __future__ import annotations

import contextlib
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

END_SECONDS = 20


@contextlib.contextmanager
def process(command: list[str], log: Path, environment: dict[str, str] | None = None) -> Iterator[None]:
    """Run a program that writes into a log, and end it after the block."""
    with (
        log.open("wb") as output,
        subprocess.Popen(command, stdout=output, stderr=output, env=environment) as child,
    ):
        try:
            yield
        finally:
            child.terminate()
            try:
                child.wait(END_SECONDS)
            except subprocess.TimeoutExpired:
                child.kill()


@contextlib.contextmanager
def each_second(look: Callable[[], None]) -> Iterator[None]:
    """Look once a second in a thread until the end of the block."""
    over = threading.Event()

    def follow() -> None:
        while not over.wait(1):
            look()

    thread = threading.Thread(target=follow, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(30)
