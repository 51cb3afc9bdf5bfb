"""Traffic by the seed: requests of many domains whose mix shifts, on two engines.

The accept lengths by domain are those of a published drafter of Kimi-K2.5 with three draft tokens; a request
differs from its domain's mean by a standard deviation of 0.25, its answer has 400 tokens on average
(exponential, 16 to 4,000), and an engine makes 25 verify calls a second for it. The two arms share the
domains' timeline (blocks of 5 minutes) and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

STEPS = 3
DOMAINS = np.array([2.687, 2.295, 3.201, 3.285, 3.342, 3.033, 2.787, 3.798, 3.809, 3.669])
"""Mean accept lengths: MT-Bench, C-Eval, GSM8K, HumanEval, MATH500, AIME, MMStar, and three of BFCL."""
WEIGHTS = np.array([4, 2, 2, 2, 2, 1, 2, 1, 1, 1]) / 18
BLOCK_SECONDS = 300.0
CALLS_A_SECOND = 25.0
POLL_SECONDS = 0.5

_CHANCES = np.linspace(0.0, 0.999, 2000)
_LENGTHS = 1 + _CHANCES + _CHANCES**2 + _CHANCES**3


@dataclass(frozen=True)
class Trace:
    """One engine's finished requests, by time."""

    at: Floats
    calls: NDArray[np.int64]
    drafts: NDArray[np.int64]


@dataclass(frozen=True)
class Traffic:
    """What both arms are given."""

    rate: float
    """Requests a second on each engine."""
    seconds: float
    odd: float = 0.0
    """Share of requests that collapse: no draft is right, and the answer is long."""
    tenant: float = 0.0
    """Share of one tenant with random tokens, who comes and goes in blocks of 5 minutes."""


def timeline(rng: np.random.Generator, seconds: float) -> NDArray[np.int64]:
    """Draw each block's domain."""
    return rng.choice(len(DOMAINS), int(seconds / BLOCK_SECONDS) + 2, p=WEIGHTS)


def engine(
    rng: np.random.Generator, traffic: Traffic, domains: NDArray[np.int64], quality: float = 1.0
) -> Trace:
    """Serve the traffic; `quality` is the share of the domains' (accept length - 1) that the drafter reaches, above 1."""
    count = rng.poisson(traffic.rate * traffic.seconds)
    begun = np.sort(rng.uniform(0, traffic.seconds, count))
    block = (begun / BLOCK_SECONDS).astype(int)
    length = np.clip(
        1 + (DOMAINS[domains[block]] - 1) * quality + rng.normal(0, 0.25, count) * min(1.0, quality),
        1.0,
        3.95,
    )
    tokens = np.clip(rng.exponential(400, count), 16, 4000)
    collapsed = rng.random(count) < traffic.odd
    tokens = np.where(collapsed, 4000, tokens)
    foreign = (rng.random(count) < traffic.tenant) & (block % 2 == 1)
    length = np.where(collapsed | foreign, 1.0, length)
    calls = np.maximum(1, (tokens / length).astype(int))
    at = begun + calls / CALLS_A_SECOND
    order = np.argsort(at)
    return Trace(at[order], calls[order], drafts_of(rng, length, calls)[order])


def drafts_of(rng: np.random.Generator, length: Floats, calls: NDArray[np.int64]) -> NDArray[np.int64]:
    """Draw the correct drafts of each request: a chain of drafts with one chance."""
    chance = np.interp(length, _LENGTHS, _CHANCES)[:, None]
    shares = np.concatenate([1 - chance, chance * (1 - chance), chance**2 * (1 - chance), chance**3], axis=1)
    counts = rng.multinomial(calls, shares / shares.sum(axis=1, keepdims=True))
    return np.asarray((counts * np.arange(STEPS + 1)).sum(axis=1))
