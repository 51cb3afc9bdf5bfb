"""Candidate against the active drafter before it: what can be said where one engine serves one after the other.

Users' requests before and after a swap are no pair, since traffic may shift with it: they raise a suspicion.
What decides are the agent's own requests. Both drafters got the same prompts on the same engine, so traffic has
no say there, and the doubt that they leave is the error of this layer.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

from specdec.acceptance.sequential import chain_floor
from specdec.acceptance.tally import Tally


@dataclass(frozen=True)
class Predecessor:
    """The active drafter, which served on the candidate's engine until it came."""

    version: str
    kept: float
    """Share of its accept length that the candidate must keep."""
    seen: Tally
    """Its last requests of users."""
    probed: Tally
    """Its share of the agent's own requests since the engine started."""
    candidate_probed: Tally
    """The candidate's share of them."""

    @property
    def limit(self) -> float | None:
        """Accept length on live traffic that the candidate should reach; None where the active one's is not known."""
        length = self.seen.accept_length
        return None if length is None else self.kept * length

    def doubt(self, steps: int) -> float:
        """Chance that a candidate just as good as is allowed does so badly on the same prompts."""
        mine, theirs = self.candidate_probed, self.probed
        if not mine.calls or not theirs.calls:
            return 1.0
        limit = self.kept * length(theirs)
        spread = _spread(mine, limit, steps) + self.kept**2 * _spread(theirs, limit, steps)
        return NormalDist().cdf((length(mine) - limit) / math.sqrt(spread)) if spread > 0 else 1.0


def length(probed: Tally) -> float:
    """Accept length of the agent's own requests, those that were cut off included."""
    return 1 + sum(probed.correct) / probed.calls


def _spread(probed: Tally, limit: float, steps: int) -> float:
    """Variance of a probe's accept length: prompts are the same for both, so only calls differ."""
    return chain_floor(length(probed) - 1, limit, steps) / probed.calls
