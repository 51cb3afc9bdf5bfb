"""Time as the controller reads it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True)
class Clock:
    """Two clocks: one for people and objects, one that never jumps."""

    now: Callable[[], float] = time.time
    """Unix seconds."""
    monotonic: Callable[[], float] = time.monotonic
    """For durations and deadlines."""


def parse(text: str | None) -> float | None:
    """Read an RFC 3339 time; None stays None."""
    return datetime.fromisoformat(text).timestamp() if text else None
