"""Anytime-valid tests on an accept length: looking often costs nothing.

The estimator is the ratio of drafts to verify calls over finished requests. Its variance is cluster-robust
over requests (requests differ, calls within one resemble each other) and never below that of an independent
chain of drafts with the same mean, so that four identical requests give no certainty. The boundary is the
one of a mixture SPRT with normal mixture (Robbins): a drafter at the limit crosses it at any time with
probability alpha, to the accuracy of the normal approximation.
"""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist

from specdec.acceptance.tally import Tally

TIGHTEST_CALLS = 50
"""The mixture is tuned to be tightest after so many verify calls: a handful of requests."""

LEAST_REQUESTS = 2
"""One request has no variance between requests."""


def below(tally: Tally, limit: float, steps: int, alpha: float) -> bool:
    """Whether the accept length is below the limit, beyond doubt `alpha`."""
    length = tally.accept_length
    return length is not None and length + radius(tally, limit, steps, alpha) < limit


def radius(tally: Tally, limit: float, steps: int, alpha: float) -> float:
    """Half width of the one-sided confidence sequence around the accept length."""
    if tally.requests < LEAST_REQUESTS or not tally.finished_calls:
        return math.inf
    spread = variance(tally, limit, steps)
    tightest = spread / tally.finished_calls * TIGHTEST_CALLS
    return mixture_boundary(spread, tightest, alpha) / tally.finished_calls


def mixture_boundary(spread: float, tightest: float, alpha: float) -> float:
    """Boundary of a sum whose variance is `spread`; it is tightest where that variance is `tightest`."""
    doubt = 2 * math.log(1 / (2 * alpha))
    rho = tightest / (doubt + math.log(1 + doubt) + 1)
    return math.sqrt((spread + rho) * (math.log((spread + rho) / rho) + doubt))


def variance(tally: Tally, limit: float, steps: int) -> float:
    """Variance of the sum of drafts around the ratio: between requests, but never below that of a chain."""
    ratio = tally.finished_drafts / tally.finished_calls
    residuals = tally.dd - 2 * ratio * tally.dc + ratio * ratio * tally.cc
    between = residuals * tally.requests / (tally.requests - 1)
    return max(between, chain_floor(ratio, limit, steps) * tally.finished_calls)


def chain_floor(ratio: float, limit: float, steps: int) -> float:
    """Least variance of one verify call: a chain's at this mean, and at least half of that at the limit."""
    return max(chain_variance(round(ratio, 3), steps), chain_variance(round(limit - 1, 3), steps) / 2)


def probe_doubt(length: float, calls: int, limit: float, steps: int) -> float:
    """Probability that a drafter at the limit shows so low an accept length in one probe."""
    spread = chain_floor(length - 1, limit, steps)
    if not calls or spread <= 0:
        return 1.0
    return NormalDist().cdf((length - limit) * math.sqrt(calls / spread))


@lru_cache(maxsize=4096)
def chain_variance(mean: float, steps: int) -> float:
    """Variance of the correct drafts of one call when each draft is right with one chance, by itself."""
    low, high = 0.0, 1.0
    for _ in range(40):
        chance = (low + high) / 2
        low, high = (chance, high) if sum(chance**k for k in range(1, steps + 1)) < mean else (low, chance)
    second = sum((2 * k - 1) * chance**k for k in range(1, steps + 1))
    return max(0.0, second - mean * mean)
