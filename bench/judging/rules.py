"""The peers' rules, re-implemented from their documents.

Flagger: every `interval` the metric of the last interval is checked; a value out of range, and no value, is a
failed check; failed checks add up over the analysis, and at `threshold` of them it rolls back (the time is
interval x threshold, as its documentation says). Argo Rollouts: a measurement every `interval`, a value that
does not meet the success condition is Failed, no data is an Error that counts apart and aborts at the fifth in
a row; more than `failureLimit` failures abort. Both are given the metric as a ratio of the two arms' sums over
the interval, which they can express in PromQL, or as the candidate's accept length against a limit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bench.judging.traces import Floats, Trace

INTERVALS = (5, 10, 15, 20, 30, 45, 60)
LIMITS = tuple(range(1, 13))
SHARES = (0.7, 0.75, 0.8, 0.85, 0.9, 0.95)
ABSOLUTE = 1.9
"""The limit of the rules that look at the candidate alone."""
MOST_ERRORS = 4
GAUGE_SECONDS = 5


@dataclass(frozen=True, order=True)
class Setting:
    """One way to set a rule up."""

    interval: int
    limit: int
    """Failures at which it rolls back."""
    share: float
    """Of the active's accept length; 0: the candidate alone against the absolute limit."""

    def __str__(self) -> str:
        against = f"{self.share:g} of active" if self.share else f"{ABSOLUTE} alone"
        return f"{self.interval} s x {self.limit}, {against}"


FLAGGER_DOCUMENTED = Setting(60, 5, 0.75)
FLAGGER_ABSOLUTE = Setting(60, 5, 0.0)
ARGO_DOCUMENTED = Setting(300, 4, 0.75)
"""Interval 5m, failureLimit 3: the fourth failure aborts."""


def grid() -> Iterator[Setting]:
    """Yield the ratio settings that hindsight chooses from."""
    for interval in INTERVALS:
        for limit in LIMITS:
            for share in SHARES:
                if interval * limit <= 600:
                    yield Setting(interval, limit, share)


def flagger(candidate: Trace, active: Trace, seconds: float, settings: list[Setting]) -> dict[Setting, float]:
    """When each setting rolls back; those that don't are left out."""
    found: dict[Setting, float] = {}
    ratios: dict[int, tuple[Floats, Floats]] = {}
    failures: dict[tuple[int, float], NDArray[np.int64]] = {}
    for setting in settings:
        interval, share = setting.interval, setting.share
        if interval not in ratios:
            ratios[interval] = lengths(candidate, seconds, interval), lengths(active, seconds, interval)
        if (interval, share) not in failures:
            mine, theirs = ratios[interval]
            good = mine >= (share * theirs if share else ABSOLUTE)  # NaN meets no condition
            failures[interval, share] = np.nonzero(~good)[0]
        bad = failures[interval, share]
        if len(bad) >= setting.limit:
            found[setting] = float((bad[setting.limit - 1] + 1) * interval)
    return found


def argo(candidate: Trace, active: Trace, seconds: float, setting: Setting = ARGO_DOCUMENTED) -> float | None:
    """When an analysis aborts."""
    mine = lengths(candidate, seconds, setting.interval)
    theirs = lengths(active, seconds, setting.interval)
    failed = errors = 0
    for tick, (own, other) in enumerate(zip(mine, theirs, strict=True), 1):
        missing = bool(np.isnan(own) or np.isnan(other))
        errors = errors + 1 if missing else 0
        failed += not missing and bool(own < setting.share * other)
        if failed >= setting.limit or errors > MOST_ERRORS:
            return float(tick * setting.interval)
    return None


def gauge(candidate: Trace) -> float | None:
    """When an alert on the engine's gauge, read every 5 s, first fires: it holds the last finished request's value."""
    low = np.nonzero(1 + candidate.drafts / candidate.calls < ABSOLUTE)[0]
    reads = np.ceil(candidate.at / GAUGE_SECONDS)
    for place in low:  # seen only if no other request finished before the next read
        if place + 1 == len(reads) or reads[place + 1] > reads[place]:
            return float(reads[place] * GAUGE_SECONDS)
    return None


def lengths(trace: Trace, seconds: float, interval: int) -> Floats:
    """Accept length of each interval; NaN without a finished request."""
    count = int(seconds / interval)
    place = (trace.at / interval).astype(int)
    within = place < count
    drafts = np.bincount(place[within], trace.drafts[within], count)
    calls = np.bincount(place[within], trace.calls[within], count)
    with np.errstate(invalid="ignore"):
        return np.asarray(1 + drafts / calls)
