"""What a test run has started ends with it, also where the run is killed: a process of its own waits for that end."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from tests.support.paths import ROOT

from specdec.engine.agent.orphans import carrying, end

MARK = "SPECDEC_TEST_RUN"
"""Environment variable of all that a run starts: no process, group or session forgets it."""
END_SECONDS = 20.0


@contextmanager
def leash() -> Iterator[None]:
    """Mark all processes that are started from here on, and keep `tempfile`'s folders in one of the leash's own.

    When this process ends or leaves, the former are killed and the latter removed. Inside another leash the inner one holds.
    """
    mark, outer = secrets.token_hex(8), os.environ.pop(MARK, None)
    folder, around = tempfile.mkdtemp(prefix="specdec-"), tempfile.tempdir
    holder = subprocess.Popen(
        [sys.executable, "-m", __name__, mark, str(os.getpgrp()), folder],
        stdin=subprocess.PIPE,
        start_new_session=True,
        cwd=ROOT,
    )
    os.environ[MARK], tempfile.tempdir = mark, folder
    try:
        yield
    finally:
        del os.environ[MARK]
        tempfile.tempdir = around
        if outer is not None:
            os.environ[MARK] = outer
        holder.communicate(timeout=END_SECONDS)


def main() -> None:
    """Wait for the run's end, which closes the pipe however it comes, kill what is left, and remove its folders."""
    mark, spared, folder = sys.argv[1:]
    sys.stdin.buffer.read()
    # What is killed may have been about to start another.
    while end(carrying(f"{MARK}={mark}", int(spared))):
        pass
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
