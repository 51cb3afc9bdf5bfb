"""Candidate against active, side by side: one bet for every bucket of requests that both served at the same time.

The null: per bucket the candidate keeps at least the share `kept` of the active's accept length, whatever the
traffic is. The wealth is then a supermartingale, and the chance that it ever reaches 1 / alpha is at most
alpha (Ville), however often it is looked at. It never restarts, and bets nothing while the candidate holds its
own, so a fault that comes late is found as soon as one that was there from the start.

A bucket closes when both arms have finished a request. Both arms' requests in it are of the same seconds, so
traffic that shifts moves both alike; what sticks to one engine does not, and `routing` looks for that.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple, Self

from specdec.acceptance.tally import Tally

BUCKET_SECONDS = 120.0
"""Requests that waited longer for the other arm are of another time and not compared."""

LARGEST = 0.5
"""Payoffs are cut at this, in units of the largest there can be: half of all steps between two requests of one
bucket is rare, and a bet may then be twice as bold. Equal arms are cut alike on both sides."""

BOLDEST = 0.95
"""Largest bet: a payoff is at most 1, so the wealth stays positive."""

PRIOR = 2
"""Buckets that the first estimate (no difference) counts for."""

MEMORY = 60
"""Bets that the estimate of the next one's mean and variance looks back on."""


class Arm(NamedTuple):
    """Sums over some finished requests of one drafter."""

    requests: int = 0
    calls: int = 0
    drafts: int = 0

    @classmethod
    def of(cls, tally: Tally) -> Self:
        """Take the sums of what was finished."""
        return cls(tally.requests, tally.finished_calls, tally.finished_drafts)

    def plus(self, other: Arm) -> Arm:
        """Pool two arms: sums first, the ratio afterwards."""
        return Arm(self.requests + other.requests, self.calls + other.calls, self.drafts + other.drafts)

    @property
    def ratio(self) -> float:
        """Correct drafts per verify call."""
        return self.drafts / self.calls


NONE = Arm()


@dataclass(frozen=True, slots=True)
class Comparison:
    """A running bet that the candidate is worse than the active drafter."""

    steps: int
    kept: float
    """Share of the active's accept length that the candidate must keep."""
    candidate: Arm = NONE
    """Of the bucket that is open."""
    active: Arm = NONE
    opened: float = 0.0
    wealth: float = 0.0
    """Logarithm; 0 at the start."""
    peak: float = 0.0
    """Highest wealth so far: what was proved once stays proved."""
    mean: float = 0.0
    spread: float = 0.1
    """Variance of the payoffs."""
    buckets: int = 0
    requests: int = 0
    """The candidate's, of all closed buckets."""
    candidate_sum: float = 0.0
    """Sum of the closed buckets' ratios."""
    active_sum: float = 0.0

    def fed(self, candidate: Arm, active: Arm, now: float) -> Comparison:
        """Add what both arms finished since the last look."""
        if not candidate.requests and not active.requests:
            return self
        fresh = now - self.opened > BUCKET_SECONDS or not (self.candidate.requests or self.active.requests)
        mine = candidate if fresh else self.candidate.plus(candidate)
        theirs = active if fresh else self.active.plus(active)
        opened = now if fresh else self.opened
        if mine.requests and theirs.requests:
            return self._closed(mine, theirs)
        return replace(self, candidate=mine, active=theirs, opened=opened)

    def _closed(self, mine: Arm, theirs: Arm) -> Comparison:
        """Bet on one bucket; the stake was fixed by the buckets before it."""
        full = (1 + mine.ratio - self.kept * (1 + theirs.ratio)) / (self.steps + 1 - self.kept)
        payoff = max(-1.0, min(1.0, full / LARGEST))
        wealth = self.wealth + math.log1p(-self._stake() * payoff)
        weight = min(self.buckets + 1, MEMORY) + PRIOR
        mean = self.mean + (payoff - self.mean) / weight
        return replace(
            self,
            candidate=NONE,
            active=NONE,
            wealth=wealth,
            peak=max(self.peak, wealth),
            mean=mean,
            spread=self.spread + ((payoff - mean) ** 2 - self.spread) / weight,
            buckets=self.buckets + 1,
            requests=self.requests + mine.requests,
            candidate_sum=self.candidate_sum + mine.ratio,
            active_sum=self.active_sum + theirs.ratio,
        )

    def _stake(self) -> float:
        """Bet what grows the wealth most if the next payoff is like the last ones, and nothing on a good arm."""
        return min(BOLDEST, max(0.0, -self.mean / (self.spread + self.mean * self.mean)))

    def worse(self, alpha: float) -> bool:
        """Whether the candidate is worse, beyond doubt `alpha`."""
        return alpha > 0 and self.peak >= math.log(1 / alpha)

    @property
    def lengths(self) -> tuple[float, float]:
        """Mean accept length of candidate and active over the closed buckets."""
        seen = max(1, self.buckets)
        return 1 + self.candidate_sum / seen, 1 + self.active_sum / seen

    @property
    def behind(self) -> bool:
        """Whether the candidate is below its limit so far, be it by chance."""
        mine, theirs = self.lengths
        return self.buckets > 0 and mine < self.kept * theirs
