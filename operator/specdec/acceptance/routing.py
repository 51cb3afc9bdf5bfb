"""Is traffic dealt evenly? Engines with the same drafter, compared with each other while none is on trial.

A paired comparison of two drafters on two engines is one of drafters only if both engines get the same mix of
requests. Where a router pins tenants to engines, equal drafters show unequal accept lengths. This looks for
that where the truth is known: between engines that serve the same drafter.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple

from specdec.acceptance.compare import Arm

WINDOW_LOOKS = 8
"""Fewest looks at each engine, each with a finished request, in one window: fewer have no variance worth the name."""
WINDOW_SECONDS = 30.0
"""Shortest window, so that what is remembered spans many minutes at every rate."""
PATIENCE_SECONDS = 300.0
"""An engine that is short of requests for this long is left out of the window."""
FORGET = 0.98
"""Weight of the past after each window: half of it is gone after 34 windows."""
LEAST_FREEDOM = 5.0
"""Windows times (engines - 1) that a word on the routing needs."""
LEAST_VARIANCE = 0.005
"""Of one look: a seventh of what requests of one kind show."""
STICKY_RATIO = 4.0
"""Even traffic gives 1.4 with windows of 8 looks (their variance is an estimate), tenants on their own engines 10 to 60."""


class Dealt(StrEnum):
    """How traffic reaches the engines."""

    UNCHECKED = "Unchecked"
    """Engines with the same drafter were not seen side by side for long enough."""
    EVENLY = "Evenly"
    STICKY = "Sticky"
    """Equal drafters differ by engine far more than chance explains."""


class Looks(NamedTuple):
    """What was seen of one engine: correct drafts per verify call, look by look.

    A look is bounded whatever its requests are; a sum over requests would follow the few longest of them.
    """

    seen: int = 0
    total: float = 0.0
    squares: float = 0.0

    def plus(self, arm: Arm) -> Looks:
        """Add one look, if a request was finished."""
        if not arm.requests:
            return self
        return Looks(self.seen + 1, self.total + arm.ratio, self.squares + arm.ratio**2)

    @property
    def mean(self) -> float:
        """Mean of the looks."""
        return self.total / self.seen

    @property
    def variance(self) -> float:
        """Variance of the mean, and never so small that equal looks are certainty."""
        between = (self.squares - self.total * self.mean) / (self.seen - 1)
        return max(between, LEAST_VARIANCE) / self.seen


@dataclass(frozen=True, slots=True)
class Routing:
    """How much engines with the same drafter differ, against how much their requests do."""

    window: Mapping[str, Looks] = field(default_factory=lambda: MappingProxyType({}))
    opened: float = 0.0
    excess: float = 0.0
    """Squared differences in units of their variance."""
    freedom: float = 0.0
    """What chance alone would make of it, about."""

    def fed(self, arms: Mapping[str, Arm], now: float) -> Routing:
        """Add what engines with the same drafter finished since the last look; others are left out."""
        if len(arms) < 2:
            return Routing(excess=self.excess, freedom=self.freedom)
        window = {pod: self.window.get(pod, Looks()).plus(arm) for pod, arm in arms.items()}
        opened = self.opened if self.window else now
        ready = tuple(looks for looks in window.values() if looks.seen >= WINDOW_LOOKS)
        waited = now - opened
        complete = len(ready) == len(window) or waited >= PATIENCE_SECONDS
        if waited < WINDOW_SECONDS or len(ready) < 2 or not complete:
            return Routing(MappingProxyType(window), opened, self.excess, self.freedom)
        excess = self.excess * FORGET + _excess(ready)
        return Routing(excess=excess, freedom=self.freedom * FORGET + len(ready) - 1)

    @property
    def dealt(self) -> Dealt:
        """Say how traffic reaches the engines."""
        if self.freedom < LEAST_FREEDOM:
            return Dealt.UNCHECKED
        return Dealt.STICKY if self.excess > STICKY_RATIO * self.freedom else Dealt.EVENLY


def _excess(engines: tuple[Looks, ...]) -> float:
    """Chi-square of the engines' means, each with its own variance."""
    weights = [1 / looks.variance for looks in engines]
    mean = sum(weight * looks.mean for weight, looks in zip(weights, engines, strict=True)) / sum(weights)
    return sum(weight * (looks.mean - mean) ** 2 for weight, looks in zip(weights, engines, strict=True))
