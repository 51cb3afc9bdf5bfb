"""What the agent's own requests show: a pure rule over exact counters.

A probe answers one question, *does this drafter draft at all*, not whether it is good. Dead drafters
(dropped weights, wrong layers, a wrong map) get a first draft token right by chance in well under 5 % of
verify calls (seen: 0 to 3 %); a drafter of any use does so in 30 % or more. So: with c right first tokens
in n calls, the probe passes iff a dead drafter would reach c with a probability below 1 in 1,000, by the
binomial tail at 5 %. At n = 40 that is c >= 8. First tokens only: later positions depend on them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from specdec.engine.protocol import Source

if TYPE_CHECKING:
    from collections.abc import Iterable

    from specdec.engine.protocol import Counters

CHANCE = 0.05
SURPRISE = 0.001
ENOUGH_CALLS = 40
MOST_CALLS = 160
"""An undecided probe goes on until here: a weak drafter must not be called dead for bad luck."""
LONGEST_PERIOD = 4


@dataclass(frozen=True)
class Tally:
    """Verify calls of the agent's own requests and what came of them."""

    calls: int = 0
    first: int = 0
    """Calls whose first draft token was right."""
    correct: int = 0
    """Right draft tokens of all positions."""

    def __sub__(self, other: Tally) -> Tally:
        return Tally(self.calls - other.calls, self.first - other.first, self.correct - other.correct)

    @property
    def accept_length(self) -> float:
        """1 + correct drafts / verify calls."""
        return 1 + self.correct / self.calls if self.calls else 0.0


def tally(counters: Iterable[Counters], revision: str) -> Tally:
    """Sum up the probe's counters of one revision."""
    rows = [
        row for row in counters if row.source is Source.PROBE and row.revision == revision and row.steps >= 1
    ]
    return Tally(
        calls=sum(row.calls for row in rows),
        first=sum(row.correct[0] for row in rows if row.correct),
        correct=sum(sum(row.correct) for row in rows),
    )


def tail(first: int, calls: int) -> float:
    """Probability that a dead drafter gets at least `first` of `calls` first tokens right."""
    below = sum(
        math.comb(calls, hits) * CHANCE**hits * (1 - CHANCE) ** (calls - hits) for hits in range(first)
    )
    return max(0.0, 1 - below)


def drafts(seen: Tally, enough: int = ENOUGH_CALLS) -> bool:
    """Whether the drafter drafts: enough calls, and more right than chance gives."""
    return seen.calls >= enough and tail(seen.first, seen.calls) < SURPRISE


def decided(seen: Tally, enough: int = ENOUGH_CALLS) -> bool:
    """Whether more calls would hardly change the answer; fewer than the usual number can only say that it drafts."""
    if drafts(seen, enough):
        return True
    if seen.calls < ENOUGH_CALLS:
        return False
    return seen.first <= CHANCE * seen.calls or seen.calls >= MOST_CALLS


def degenerate(text: str) -> bool:
    """Whether an answer is empty or only repeats a few characters: its accept length would flatter any drafter."""
    clean = text.strip()
    if len(clean) < 4 * LONGEST_PERIOD:
        return not clean
    return any(clean[period:] == clean[:-period] for period in range(1, LONGEST_PERIOD + 1))
