"""The runs: the same traces for every rule, interleaved run by run."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from bench.judging import ours, rules
from bench.judging.traces import DOMAINS, WEIGHTS, Trace, Traffic, engine, timeline
from specdec.acceptance.judge import ROLLOUT, STEADY
from specdec.acceptance.routing import Dealt

MEAN = float(DOMAINS @ WEIGHTS)
HALF_HOUR = 1800.0
MODEST = 0.62
"""Quality of a drafter with a mean of 2.3, whose hard domains lie below the absolute limit."""


def of_active(share: float) -> float:
    """Quality of a drafter with this share of the active's accept length."""
    return (share * MEAN - 1) / (MEAN - 1)


@dataclass
class Tried:
    """What every rule did with one kind of candidate; None: it kept it."""

    ours: list[float | None] = field(default_factory=list)
    argo: list[float | None] = field(default_factory=list)
    gauge: list[float | None] = field(default_factory=list)
    flagger: dict[rules.Setting, list[float]] = field(default_factory=dict)
    """Rollbacks only, by setting."""

    def median(self, name: str) -> float:
        """Median time, where one that was kept counts as the whole half hour."""
        times = [HALF_HOUR if time is None else time for time in getattr(self, name)]
        return float(np.median(times))

    def median_of(self, setting: rules.Setting) -> float:
        """The same for a setting of Flagger's."""
        found = self.flagger.get(setting, [])
        return float(np.median(found + [HALF_HOUR] * (len(self.ours) - len(found))))

    def caught(self, name: str) -> int:
        """How many were rolled back."""
        return sum(time is not None for time in getattr(self, name))


def pair(seed: int, traffic: Traffic, quality: float, base: float, *, sticky: bool = False) -> list[Trace]:
    """Candidate and active under one timeline of domains, or each under its own."""
    rng = np.random.default_rng([seed, round(traffic.rate * 10)])
    domains = timeline(rng, traffic.seconds)
    other = timeline(rng, traffic.seconds) if sticky else domains
    return [engine(rng, traffic, domains, quality), engine(rng, traffic, other, base)]


def rolled_out(traffic: Traffic, quality: float, runs: int, seed: int, *, base: float = 1.0) -> Tried:
    """Half an hour beside the active drafter, so many times."""
    tried, settings = Tried(), [*rules.grid(), rules.FLAGGER_ABSOLUTE]
    for run in range(runs):
        candidate, active = pair(seed + run, traffic, quality * base, base)
        tried.ours.append(ours.found_worse(candidate, active))
        tried.argo.append(rules.argo(candidate, active, HALF_HOUR))
        tried.gauge.append(rules.gauge(candidate))
        for setting, time in rules.flagger(candidate, active, HALF_HOUR, settings).items():
            tried.flagger.setdefault(setting, []).append(time)
    return tried


@dataclass(frozen=True)
class Stuck:
    """Equal drafters whose engines get tenants of their own."""

    noticed: int
    taken: int
    """Rolled back by us: the test is sure and nothing was noticed."""
    plain: int
    """Rolled back by the paired test, were the routing not looked at."""
    stratified: int
    """The same with each engine held against its own history: the limit times their ratio before the trial."""
    flagger: int
    """Rolled back by the documented ratio rule."""


def stuck(rate: float, runs: int, seed: int) -> Stuck:
    """Half an hour with one drafter on both engines, then half an hour with an equal candidate on one."""
    traffic = Traffic(rate, HALF_HOUR)
    noticed = taken = plain = stratified = flagger = 0
    for run in range(runs):
        before = pair(seed + run, traffic, 1.0, 1.0, sticky=True)
        candidate, active = pair(seed + runs + run, traffic, 1.0, 1.0, sticky=True)
        seen = ours.dealt(before)
        found = ours.found_worse(candidate, active) is not None
        noticed += seen is Dealt.STICKY
        plain += found
        taken += found and seen is Dealt.EVENLY
        documented = [rules.FLAGGER_DOCUMENTED]
        stratified += ours.found_worse(candidate, active, min(0.99, ours.KEPT * _ratio(*before))) is not None
        flagger += bool(rules.flagger(candidate, active, HALF_HOUR, documented))
    return Stuck(noticed, taken, plain, stratified, flagger)


def _ratio(mine: Trace, other: Trace) -> float:
    """How much longer one engine's drafts were accepted than the other's, with the same drafter."""
    lengths = [1 + trace.drafts.sum() / trace.calls.sum() for trace in (mine, other)]
    return float(lengths[0] / lengths[1])


def even(rate: float, runs: int, seed: int) -> int:
    """How often even routing was taken for sticky: that costs the paired layer, and moves nothing."""
    traffic = Traffic(rate, HALF_HOUR, odd=0.01)
    return sum(ours.dealt(pair(seed + run, traffic, 1.0, 1.0)) is Dealt.STICKY for run in range(runs))


def alone(traffic: Traffic, quality: float, runs: int, seed: int, *, steady: bool = False) -> tuple[int, int]:
    """How often the layers without a rival take a sound drafter away, and how often the gauge's alert would."""
    taken = gauge = 0
    for run in range(runs):
        rng = np.random.default_rng([seed + run, round(traffic.rate * 10)])
        trace = engine(rng, traffic, timeline(rng, traffic.seconds), quality)
        levels = STEADY if steady else ROLLOUT
        taken += ours.taken_away(rng, trace, rules.ABSOLUTE, quality, levels) is not None
        gauge += rules.gauge(trace) is not None
    return taken, gauge


def settled(traffic: Traffic, quality: float, runs: int, seed: int) -> list[float]:
    """When the layers without a rival take a settled drafter away that is bad from now on; those it kept are left out."""
    found: list[float | None] = []
    for run in range(runs):
        rng = np.random.default_rng([seed + run, round(traffic.rate * 10)])
        trace = engine(rng, traffic, timeline(rng, traffic.seconds), quality)
        found.append(ours.taken_away(rng, trace, rules.ABSOLUTE, quality, STEADY))
    return [time for time in found if time is not None]
