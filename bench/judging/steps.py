"""Fewer steps at larger batches: what an oracle would gain over the better of three steps and none.

One drafter is right with one chance at every position, so k steps keep 1 + p + ... + p^k tokens. The cost of an
iteration, in units of a plain decode, lies between that of none and that of three steps in proportion. On the H200 both
were measured (docs/benchmarks.md: a dead drafter, and drafting off by SGLang's own way, which verifies one token).
Of published pairs only three steps are known (accept length over speedup); that none cost 1 is the kindest to few steps.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from tests.support.paths import ROOT

from bench.judging.regret import BATCHES, SPEEDUPS
from bench.judging.traces import Floats

MEASURED = json.loads((ROOT / "tests/gpu/results.json").read_text())["wide"]["rows"]
VERIFY = {
    row["batch"]: row["ratio"] for row in MEASURED if (row["what"], row.get("mode")) == ("overhead", "warm")
}
"""Speed with drafting off by SGLang's own way over that of a plain server, by batch size."""
DEAD = {1: 165 / 258, 8: 1055 / 1951, 32: 2634 / 6957}
"""Speed with three steps of which nothing is accepted, over that of a plain server."""


@dataclass(frozen=True)
class Costs:
    """Of an iteration over a plain one, by batch."""

    batches: Floats
    none: Floats
    three: Floats


PAIRS: Mapping[str, Costs] = {
    "measured on an H200": Costs(
        np.array(list(DEAD), float),
        1 / np.array([VERIFY[batch] for batch in DEAD]),
        1 / np.array(list(DEAD.values())),
    ),
    "3.0 kept, speedup 1.67 to 0.75": Costs(BATCHES, np.ones(5), 3.0 / SPEEDUPS),
    "Kimi-K2.5, batch 2 and 40": Costs(np.array([2.0, 40.0]), np.ones(2), np.array([1.53, 2.94])),
}
CHANCES = np.linspace(0.3, 0.95, 66)


@dataclass(frozen=True)
class Gain:
    """Of steps by batch size, for the drafter that gains most."""

    most: float
    """At the batch where it is largest."""
    chance: float
    crossing: float
    """Over a load that rises from the smallest batch to the largest evenly in the logarithm."""


def gain(costs: Costs) -> Gain:
    """Look at every drafter and batch."""
    batches = np.exp(np.linspace(np.log(costs.batches[0]), np.log(costs.batches[-1]), 200))
    none, three = (
        np.interp(np.log(batches), np.log(costs.batches), cost) for cost in (costs.none, costs.three)
    )
    found = []
    for chance in CHANCES:
        drafting = [_kept(chance, steps) / (none + (three - none) * steps / 3) for steps in (1, 2, 3)]
        speeds = np.stack([np.ones(len(batches)), *drafting])
        whole = np.maximum(speeds[0], speeds[3])
        crossing = float(speeds.max(axis=0).sum() / whole.sum())
        found.append(Gain(float((speeds.max(axis=0) / whole).max()), float(chance), crossing))
    return max(found, key=lambda one: one.most)


def _kept(chance: float, steps: int) -> float:
    """Tokens that an iteration keeps."""
    return float(sum(chance**position for position in range(steps + 1)))
