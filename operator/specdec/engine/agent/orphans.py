"""PID 1's duty: whatever SGLang's processes leave behind is adopted and must be reaped."""

from __future__ import annotations

import contextlib
import ctypes
import os
from pathlib import Path

PR_SET_CHILD_SUBREAPER = 36


def adopt() -> None:
    """Become the parent of orphaned descendants, as PID 1 of a container is anyway."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def zombies(proc: Path = Path("/proc")) -> set[int]:
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
