from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from specdec.engine.agent.child import TAIL_LINES, Child
from specdec.engine.agent.launch import Launch
from specdec.engine.agent.orphans import end_strays, reap, zombies
from specdec.engine.agent.vitals import LONGEST_BEAT_SECONDS, Vitals, runs
from specdec.engine.protocol import Phase

PROC = Path("/proc")


def run(script: str, marks: list | None = None) -> Child:
    launch = Launch((sys.executable, "-c", script), dict(os.environ), "{}")
    return Child.start(launch, (marks if marks is not None else []).append)


def wait_until(holds: Callable[[], bool], seconds: float = 10) -> None:
    until = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.02)


async def test_output_is_passed_on_and_read(capfdbinary):
    marks: list = []
    child = run(
        "print('Load weight begin. avail mem=1', end='\\r'); print('a\\nThe server is fired up and ready to roll!')",
        marks,
    )
    assert await child.ended() == 0
    assert [mark.phase for mark in marks] == [Phase.LOADING_WEIGHTS, Phase.WARMING_UP]
    assert list(child.tail)[-2:] == ["a", "The server is fired up and ready to roll!"]
    assert b"fired up" in capfdbinary.readouterr().out


async def test_the_tail_is_bounded():
    child = run("for n in range(1000): print(n)\nprint('x' * 100_000)")
    await child.ended()
    assert len(child.tail) == TAIL_LINES
    assert max(map(len, child.tail)) <= 4096


async def test_a_whole_group_that_hears_nothing_is_killed():
    script = """
import signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
inner = subprocess.Popen([sys.executable, "-c", "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(60)"])
print("inner", inner.pid, flush=True)
time.sleep(60)
"""
    child = run(script)
    await asyncio.wait_for(asyncio.to_thread(wait_until, lambda: len(child.tail) >= 2), 10)
    inner = next(int(line.split()[1]) for line in child.tail if line.startswith("inner"))
    began = time.monotonic()
    await child.stop(0.5)
    assert time.monotonic() - began < 5
    assert child.exited.result() == -9
    await asyncio.to_thread(wait_until, lambda: not runs(inner, PROC))


async def test_a_program_that_is_not_there_is_an_oserror():
    with pytest.raises(OSError, match="nowhere"):
        Child.start(Launch(("/nowhere/python",), {}, "{}"), lambda mark: None)


def test_orphans_are_reaped_at_the_second_look():
    process = subprocess.Popen([sys.executable, "-c", "pass"])
    wait_until(lambda: process.pid in zombies())
    first = reap(set())
    assert process.pid in first
    assert process.pid not in reap(first)
    assert process.pid not in zombies()
    process.returncode = 0


def test_only_processes_of_earlier_starts_are_ended(tmp_path: Path):
    def begin(run_dir: Path) -> subprocess.Popen[bytes]:
        environment = {**os.environ, "SPECDEC_RUN_DIR": str(run_dir)}
        # Its child has no such variable any more, as one that has set its title.
        nap = (
            "import subprocess, sys, time; "
            "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'], env={}); "
            "print('up', flush=True); time.sleep(60)"
        )
        process = subprocess.Popen(
            [sys.executable, "-c", nap], env=environment, stdout=subprocess.PIPE, start_new_session=True
        )
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        return process

    mine, other = begin(tmp_path / "run" / "0a1b2c3d"), begin(tmp_path / "runner" / "0a1b2c3d")
    try:
        ended = end_strays(tmp_path / "run")
        assert mine.pid in ended
        assert len(ended) == 2
        assert mine.wait(5) == -9
        assert other.poll() is None
        assert end_strays(tmp_path / "run") == set()
    finally:
        for process in (mine, other):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()


def test_alive_while_the_loop_turns_or_the_engine_runs():
    vitals = Vitals(pid=None, beat=100.0)
    assert vitals.live(100.0 + LONGEST_BEAT_SECONDS - 1)
    assert not vitals.live(100.0 + LONGEST_BEAT_SECONDS + 1)
    vitals.pid = os.getpid()
    assert vitals.live(10**6)
    vitals.pid = 2**22 + 1
    assert not vitals.live(10**6)
