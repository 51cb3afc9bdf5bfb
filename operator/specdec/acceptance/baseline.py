"""Drafting against none: short blocks without drafting under the live load say what drafting is worth.

One engine's speed is kept tokens over the seconds that requests spent in decode batches: what a user sees. A
pair is one stretch with drafting and the stretch without it that stands next to it, so that load and mix are
the same; its value is the logarithm of the ratio. Requests that were in flight at a resume have holes in their draft
KV and draft badly until they end: the engine counts them as `carried`, and no stretch has them. The boundary over pairs is the one of `sequential`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import pairwise
from math import fsum
from statistics import fmean
from typing import NamedTuple

from specdec.acceptance.sequential import mixture_boundary

LEAST_TOKENS = 32
"""A stretch with fewer tokens says nothing of an engine's speed."""
LEAST_PAIRS = 4
MOST_PAIRS = 16
"""Older pairs are forgotten: load and mix move on."""
SUFFIXES = (4, 6, 8, 12, MOST_PAIRS)
"""The last so many pairs are looked at: an old gain must not hide a new loss for long."""
LEAST_SPREAD = 0.05
"""Standard deviation of one pair, at least: four pairs that agree by chance are no certainty."""
TIGHTEST_PAIRS = 6
FEW = 12
"""The variance of few pairs is taken for this many over their number larger: it is an estimate itself."""
ALPHA = 1e-3
"""Chance that drafting goes off, or on again, although it pays exactly as much as none."""


class Pace(StrEnum):
    """What drafting is worth."""

    UNKNOWN = "Unknown"
    SLOWER = "Slower"
    """Beyond doubt, tokens come slower than without drafting."""
    FASTER = "Faster"


class Stretch(NamedTuple):
    """What one engine kept, and the seconds that its requests waited for it in decode batches."""

    tokens: int = 0
    seconds: float = 0.0

    def plus(self, other: Stretch) -> Stretch:
        """Join two stretches."""
        return Stretch(self.tokens + other.tokens, self.seconds + other.seconds)

    @property
    def tells(self) -> bool:
        """Whether a speed can be told from it."""
        return self.tokens >= LEAST_TOKENS and self.seconds > 0

    @property
    def speed(self) -> float:
        """Tokens a second of one request."""
        return self.tokens / self.seconds


NOTHING = Stretch()


@dataclass(frozen=True, slots=True)
class Baseline:
    """Pairs of stretches of one drafter on one engine."""

    drafts: bool | None = None
    """Whether the engine drafted at the last look."""
    on: Stretch = NOTHING
    off: Stretch = NOTHING
    pairs: tuple[float, ...] = ()

    def fed(self, *, drafts: bool, on: Stretch, off: Stretch) -> Baseline:
        """Add what was done since the last look; a look that saw a switch is dropped, with the first batches after it."""
        if drafts != self.drafts:
            return replace(self._paired(), drafts=drafts)
        return replace(self, on=self.on.plus(on), off=self.off.plus(off))

    def _paired(self) -> Baseline:
        """Close a pair once both of its stretches are there; a switch ends a stretch."""
        if not (self.on.tells and self.off.tells):
            return self
        pair = math.log(self.on.speed / self.off.speed)
        return replace(self, on=NOTHING, off=NOTHING, pairs=(*self.pairs, pair)[-MOST_PAIRS:])

    def speedup(self, factor: float) -> float | None:
        """Speed with drafting over that without; `factor` is the speed of "off" over that of a plain server."""
        return factor * math.exp(fmean(self.pairs)) if len(self.pairs) >= LEAST_PAIRS else None

    def pace(self, factor: float) -> Pace:
        """Say whether drafting pays, if that is beyond doubt by the last few pairs or by all."""
        if len(self.pairs) < LEAST_PAIRS:
            return Pace.UNKNOWN
        spread = _spread(self.pairs)
        for count in SUFFIXES:
            pairs = self.pairs[-count:]
            gain, doubt = fmean(pairs) + math.log(factor), _radius(spread, len(pairs))
            if abs(gain) > doubt:
                return Pace.SLOWER if gain < 0 else Pace.FASTER
        return Pace.UNKNOWN


def _spread(pairs: Sequence[float]) -> float:
    """Variance of one pair, from neighbours' differences: a step of the load is no noise. More where there are few."""
    count = len(pairs)
    steps = fsum((after - before) ** 2 for before, after in pairwise(pairs)) / (2 * (count - 1))
    return max(steps * (1 + FEW / count), LEAST_SPREAD**2)


def _radius(spread: float, count: int) -> float:
    """Half width of the confidence sequence around the mean of the pairs."""
    return mixture_boundary(spread * count, spread * TIGHTEST_PAIRS, ALPHA / len(SUFFIXES)) / count
