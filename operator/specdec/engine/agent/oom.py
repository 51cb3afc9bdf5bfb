"""Whether the kernel killed a process of this container for its memory limit: cgroup's own count says it for sure."""

from __future__ import annotations

import re
from pathlib import Path

COUNT = re.compile(r"^oom_kill (\d+)$", re.MULTILINE)
FILES = ("memory.events", "memory/memory.oom_control")
"""Of cgroup v2 and v1, below the container's own cgroup."""


def oom_kills(root: Path = Path("/sys/fs/cgroup")) -> int:
    """Count the processes killed so far; 0 where no cgroup tells."""
    for name in FILES:
        try:
            found = COUNT.search((root / name).read_text())
        except OSError:
            continue
        if found:
            return int(found.group(1))
    return 0
