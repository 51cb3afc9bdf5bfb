"""Tests that are killed leave no engine behind."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from tests.support.leash import MARK, leash

SECONDS = 30
SLEEPER = "import time; print(flush=True); time.sleep(600)"
RUN = f"""
import subprocess, sys, tempfile
from tests.support.leash import leash

with leash():
    command = [sys.executable, "-c", {SLEEPER!r}]
    started = subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True)
    started.stdout.readline()
    print(started.pid, tempfile.mkdtemp(), flush=True)
    sys.stdin.read()
"""


def ended(process: int) -> bool:
    """Wait until a process has ended, a bounded time."""
    return bool(select.select([process], [], [], SECONDS)[0])


def is_removed(folder: Path) -> bool:
    """Wait until a folder is gone, a bounded time."""
    deadline = time.monotonic() + SECONDS
    while folder.exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    return not folder.exists()


@pytest.mark.parametrize(
    "number", [signal.SIGKILL, signal.SIGTERM, None], ids=["killed", "told to end", "over"]
)
def test_what_a_run_started_in_a_session_of_its_own_ends_with_it(number: signal.Signals | None):
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", RUN], text=True, start_new_session=True, **pipes) as run:
        pid, folder = run.stdout.readline().split()
        started = os.pidfd_open(int(pid))
        try:
            if number is not None:
                run.send_signal(number)
            run.communicate(timeout=SECONDS)
            assert ended(started)
            assert is_removed(Path(folder).parent)
        finally:
            os.close(started)


def test_nothing_that_is_started_or_made_later_is_the_leashs():
    around = os.environ.get(MARK), tempfile.gettempdir()
    with leash():
        assert os.environ[MARK] != around[0]
        assert Path(tempfile.gettempdir()).parent == Path(around[1])
    assert (os.environ.get(MARK), tempfile.gettempdir()) == around


def test_a_leash_in_another_gives_its_marks_back():
    with leash():
        around = os.environ[MARK]
        with leash():
            assert os.environ[MARK] != around
        assert os.environ[MARK] == around
