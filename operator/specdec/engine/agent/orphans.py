"""PID 1's duty: what SGLang's processes leave behind is adopted and reaped, and what outlived its agent is ended."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import time
from pathlib import Path

from specdec.engine.agent.vitals import runs
from specdec.engine.loopback import RUN_DIR

PR_SET_CHILD_SUBREAPER = 36
END_SECONDS = 5.0
PROC = Path("/proc")


def adopt() -> None:
    """Become the parent of orphaned descendants, as PID 1 of a container is anyway."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def strays(run_dir: Path, proc: Path = PROC) -> set[int]:
    """List processes of earlier starts below this run folder: only SGLang's carry its name, and their groups.

    A process that sets its title, as SGLang's scheduler does, overwrites its environment; its launcher does not.
    """
    return carrying(f"{RUN_DIR}={run_dir}/", os.getpgrp(), proc)


def carrying(mark: str, spared: int, proc: Path = PROC) -> set[int]:
    """List the processes with a variable in their environment that begins so, and their groups but for the spared one."""
    marked, groups = set(), dict[int, int]()
    for entry in proc.iterdir():
        if not entry.name.isdigit():
            continue
        pid = int(entry.name)
        try:
            groups[pid] = os.getpgid(pid)
            environment = (entry / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if any(variable.startswith(mark.encode()) for variable in environment):
            marked.add(pid)
    theirs = {groups[pid] for pid in marked} - {spared}
    return marked | {pid for pid, group in groups.items() if group in theirs}


def end_strays(run_dir: Path, seconds: float = END_SECONDS) -> set[int]:
    """Kill what still runs of earlier starts, since it holds ports and GPU memory, and wait until it is gone.

    An agent that is killed alone leaves SGLang running, which nobody supervises any more.
    """
    return end(strays(run_dir), seconds)


def end(found: set[int], seconds: float = END_SECONDS) -> set[int]:
    """Kill processes and wait until they are gone, at most so long; returns them."""
    for pid in found:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
    until = time.monotonic() + seconds
    while any(runs(pid, PROC) for pid in found) and time.monotonic() < until:
        time.sleep(0.05)
    return found


def zombies(proc: Path = PROC) -> set[int]:
    """List this process's children that have ended and were not waited for."""
    own = os.getpid()
    found = set()
    for entry in proc.iterdir():
        if not entry.name.isdigit():
            continue
        try:
            # The name in parentheses may hold anything; what follows it may not.
            state, parent = (entry / "stat").read_text().rpartition(")")[2].split()[:2]
        except (OSError, ValueError):
            continue
        if state == "Z" and int(parent) == own:
            found.add(int(entry.name))
    return found


def reap(seen_before: set[int]) -> set[int]:
    """Reap the zombies that were there a while ago already; the fresh ones may have a waiter of ours."""
    now = zombies()
    for pid in now & seen_before:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)
    return now - seen_before
