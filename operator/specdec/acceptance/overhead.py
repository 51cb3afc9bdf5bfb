"""What "drafting off" runs at, of a server without speculative arguments: measured, by platform and batch size.

The judge multiplies a speedup against "off" by it. The figures are the last run's of `python -m tests.gpu` (H200,
SGLang 0.5.17, 24 layers of Kimi-K2.5's widths); docs/benchmarks.md shows them with their spread.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class Off(StrEnum):
    """How the engine decodes while drafting is off."""

    PLAIN = "plain"
    """The target's own decode path."""
    VERIFY = "verify"
    """SGLang's verify of a tree of one token, with draft KV kept: an order with `warm`, or no plain path."""


MEASURED: Mapping[tuple[str, Off], Mapping[int, float]] = {
    ("cuda", Off.PLAIN): {1: 0.975, 8: 0.988, 32: 0.978},
    ("cuda", Off.VERIFY): {1: 0.772, 8: 0.628, 32: 0.415},
}
"""Speed of "off" over that of a plain server, by batch size."""


def off_factor(platform: str, off: Off, batch: float) -> float | None:
    """Factor at the largest measured batch that is not larger; None for a platform that nobody measured."""
    measured = MEASURED.get((platform, off))
    if measured is None:
        return None
    return measured[max((size for size in measured if size <= batch), default=min(measured))]
