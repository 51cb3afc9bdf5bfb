"""Named, timed steps; commands that explain their failure; waits that end."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

SHOWN_LINES = 40


class StepFailedError(Exception):
    """A step can't go on; the sentence says what was expected and what to look at."""


@contextmanager
def step(name: str) -> Iterator[None]:
    """Time what runs inside, and say so when it is done."""
    started = time.monotonic()
    try:
        yield
    except BaseException:
        print(f"==> {name} ... failed after {time.monotonic() - started:.1f} s", flush=True)
        raise
    print(f"==> {name} ... {time.monotonic() - started:.1f} s", flush=True)


def run(
    *command: str | Path,
    deadline: float = 600,
    cwd: Path | None = None,
    env: dict[str, str] | None = None,
    stdin: str | None = None,
) -> str:
    """Run a command to its end and return what it wrote to standard output."""
    shown = " ".join(map(str, command))
    try:
        done = subprocess.run(
            command,
            input="" if stdin is None else stdin,
            capture_output=True,
            text=True,
            timeout=deadline,
            cwd=cwd,
            env=env,
            check=False,
        )
    except FileNotFoundError as missing:
        raise StepFailedError(f"{missing.filename} is not installed; it was needed for: {shown}") from missing
    except subprocess.TimeoutExpired as late:
        raise StepFailedError(f"not done after {deadline:.0f} s: {shown}") from late
    if done.returncode:
        tail = "\n".join((done.stdout + done.stderr).splitlines()[-SHOWN_LINES:])
        raise StepFailedError(f"exit {done.returncode} of: {shown}\n{tail}")
    return done.stdout


def succeeds(*command: str | Path, deadline: float = 60) -> bool:
    """Tell whether a command ends well; a missing program or a late end is a no."""
    try:
        run(*command, deadline=deadline)
    except StepFailedError:
        return False
    return True


def wait_for(what: str, condition: Callable[[], bool], *, deadline: float, pause: float = 0.5) -> None:
    """Ask until the condition holds, and name it if it does not within the deadline."""
    started = time.monotonic()
    told = started
    while not condition():
        now = time.monotonic()
        if now - started > deadline:
            raise StepFailedError(f"waited {deadline:.0f} s for {what}")
        if now - told > 15:
            print(
                f"    waiting for {what} ({now - started:.0f} of {deadline:.0f} s)",
                file=sys.stderr,
                flush=True,
            )
            told = now
        time.sleep(pause)
