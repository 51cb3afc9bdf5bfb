"""Time as the controller reads it, and Kubernetes' way to write it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime


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


def micro_time(now: float) -> str:
    """Write a `MicroTime`, as Leases and Events carry it."""
    return datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
