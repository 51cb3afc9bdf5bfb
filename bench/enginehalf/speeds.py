"""Throughput beside SGLang as it is, without our plugin: measured in turns on servers that run side by side."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator

from tests.support.engine import STEPS, Engine
from tests.support.load import speed

from bench.results import Row
from specdec.engine.loopback import Steps

ROUNDS = 21
TOKENS = {1: 64, 8: 32}
"""Of an answer, by batch: short, so that what else runs on the machine meets both sides alike."""
Arms = dict[str, Callable[[], Engine]]


def rows(ours: Engine, drafting: Engine, plain: Engine, asked: Iterator[list[int]]) -> list[Row]:
    """Drafting beside stock SGLang that drafts, and off beside stock SGLang that never does."""
    arms: Arms = {
        "on": lambda: _switched(ours, STEPS),
        "stock": lambda: drafting,
        "off": lambda: _switched(ours, 0),
        "plain": lambda: plain,
    }
    found = []
    for batch in TOKENS:
        speeds = in_turns(arms, batch, asked)
        found += [_absolute(name, batch, values) for name, values in speeds.items()]
        with_plugin, off = (
            ratios(speeds[ours], speeds[theirs]) for ours, theirs in (("on", "stock"), ("off", "plain"))
        )
        low, high = median_interval(with_plugin)
        found += [
            Row(f"drafting / stock SGLang without the plugin, batch {batch}: lower end", round(low, 3), "x", 0.95,
                "95 % interval of the median", ROUNDS, f"{low:.3f} to {high:.3f}, median {statistics.median(with_plugin):.3f}", least=True),
            Row(f"drafting off / no speculative arguments, batch {batch}", round(statistics.median(off), 3), "x", 0.9,
                "stock SGLang without the plugin", ROUNDS, "95 %: {:.3f} to {:.3f}".format(*median_interval(off)), least=True),
        ]  # fmt: skip
    return found


def in_turns(arms: Arms, batch: int, asked: Iterator[list[int]]) -> dict[str, list[float]]:
    """Speed of every arm in every round, tokens a second; every other round goes backwards, and the first warms up."""
    found: dict[str, list[float]] = {name: [] for name in arms}
    for number in range(ROUNDS + 1):
        for name, engine in list(arms.items())[:: -1 if number % 2 else 1]:
            prompts = [next(asked) for _ in range(batch)]
            found[name].append(speed(engine(), prompts, TOKENS[batch]))
    return {name: values[1:] for name, values in found.items()}


def ratios(ours: list[float], theirs: list[float]) -> list[float]:
    """Ratios of the same rounds."""
    return [mine / other for mine, other in zip(ours, theirs, strict=True)]


def median_interval(values: list[float], error: float = 0.05) -> tuple[float, float]:
    """Interval that holds the median with 95 %: by order, whatever the distribution (binomial, p = 1/2)."""
    ordered, count = sorted(values), len(values)
    below, tail = 0, 0.5**count
    while tail <= error / 2:
        below += 1
        tail += math.comb(count, below) * 0.5**count
    if not below:
        raise ValueError(f"{count} values hold no such interval, expected 6 or more")
    return ordered[below - 1], ordered[count - below]


def _absolute(name: str, batch: int, values: list[float]) -> Row:
    what = {
        "on": "drafting 3 tokens, all right",
        "stock": "the same on stock SGLang without the plugin",
        "off": "drafting off",
        "plain": "stock SGLang, no speculative arguments, no plugin",
    }[name]
    spread = f"{min(values):.0f} to {max(values):.0f}"
    return Row(
        f"{what}, batch {batch}", round(statistics.median(values), 1), "tok/s", n=len(values), spread=spread
    )


def _switched(engine: Engine, steps: int) -> Engine:
    if engine.report().steps != steps:
        engine.order(Steps(steps=steps))
    return engine
