"""What a test run has started ends with it, also where the run is killed: a process of its own waits for that end."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from tests.support.paths import ROOT

from specdec.engine.agent.orphans import carrying, end

MARK = "SPECDEC_TEST_RUN"
"""Environment variable of all that a run starts: no process, group or session forgets it."""
END_SECONDS = 20.0


@contextmanager
def leash() -> Iterator[None]:
    """Mark all processes that are started from here on; when this process ends or leaves, they are killed.

    Inside another leash it is the inner one that marks them.
    """
    mark, outer = secrets.token_hex(8), os.environ.pop(MARK, None)
    holder = subprocess.Popen(
        [sys.executable, "-m", __name__, mark, str(os.getpgrp())],
        stdin=subprocess.PIPE,
        start_new_session=True,
        cwd=ROOT,
    )
    os.environ[MARK] = mark
    try:
        yield
    finally:
        del os.environ[MARK]
        if outer is not None:
            os.environ[MARK] = outer
        holder.communicate(timeout=END_SECONDS)


def main() -> None:
    """Wait for the run's end, which closes the pipe however it comes, and kill what is left."""
    mark, spared = sys.argv[1:]
    sys.stdin.buffer.read()
    # What is killed may have been about to start another.
    while end(carrying(f"{MARK}={mark}", int(spared))):
        pass


if __name__ == "__main__":
    main()
