"""Whether the agent is beyond help: what `/live` answers, from the API's own thread."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path

LONGEST_BEAT_SECONDS = 60.0


@dataclass
class Vitals:
    """Written by the supervising loop, read by the API's thread."""

    pid: int | None = None
    """SGLang's process while it serves."""
    beat: float = field(default_factory=time.monotonic)
    """When the supervising loop last turned."""

    def live(self, now: float, proc: Path = Path("/proc")) -> bool:
        """Say whether a restart of the container would help: SGLang is dead and nobody restarts it."""
        return now - self.beat < LONGEST_BEAT_SECONDS or (self.pid is not None and runs(self.pid, proc))


def runs(pid: int, proc: Path) -> bool:
    """Whether a process exists and is no zombie."""
    try:
        return (proc / str(pid) / "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (OSError, IndexError):
        return False
