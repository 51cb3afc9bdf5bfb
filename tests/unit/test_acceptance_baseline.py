"""Drafting against none: what makes a pair, and when pairs are beyond doubt."""

from __future__ import annotations

import math

import numpy as np
import pytest

from specdec.acceptance.baseline import MOST_PAIRS, Baseline, Pace, Stretch

NONE = Stretch()


def blocks(*speeds: tuple[float, float]) -> Baseline:
    """A stretch with drafting and one without for each pair of speeds."""
    found = Baseline().fed(drafts=True, on=NONE, off=NONE)
    for on, off in speeds:
        found = found.fed(drafts=True, on=Stretch(1000, 1000 / on), off=NONE)
        found = found.fed(drafts=False, on=Stretch(7, 900.0), off=Stretch(7, 900.0))
        found = found.fed(drafts=False, on=NONE, off=Stretch(100, 100 / off))
        found = found.fed(drafts=True, on=Stretch(7, 900.0), off=Stretch(7, 900.0))
    return found


def test_a_look_that_saw_a_switch_is_dropped():
    assert blocks((60, 40)).pairs == pytest.approx((math.log(1.5),))


def test_the_speedup_is_the_mean_ratio_times_the_factor_of_off():
    found = blocks(*[(60, 40)] * 4)
    assert found.speedup(1.0) == pytest.approx(1.5)
    assert found.speedup(0.5) == pytest.approx(0.75)


@pytest.mark.parametrize(
    ("speeds", "factor", "pace"),
    [
        ([(30, 40)] * 3, 1.0, Pace.UNKNOWN),
        ([(30, 40)] * 6, 1.0, Pace.SLOWER),
        ([(60, 40)] * 6, 1.0, Pace.FASTER),
        ([(60, 40)] * 6, 0.5, Pace.SLOWER),
        ([(40, 40)] * 16, 1.0, Pace.UNKNOWN),
        ([(80, 40), (20, 40)] * 4, 1.0, Pace.UNKNOWN),
    ],
)
def test_pace(speeds, factor, pace):
    assert blocks(*speeds).pace(factor) is pace


def test_a_stretch_with_few_tokens_makes_no_pair():
    found = Baseline().fed(drafts=True, on=NONE, off=NONE)
    found = found.fed(drafts=True, on=Stretch(1000, 20.0), off=NONE)
    found = found.fed(drafts=False, on=NONE, off=NONE).fed(drafts=False, on=NONE, off=Stretch(31, 1.0))
    assert found.fed(drafts=True, on=NONE, off=NONE).pairs == ()


def test_old_pairs_are_forgotten():
    assert len(blocks(*[(60, 40)] * (MOST_PAIRS + 5)).pairs) == MOST_PAIRS


def test_drafting_that_pays_exactly_as_much_rarely_moves_anything():
    # 200 drafters of speedup 1, 60 noisy pairs each, judged after every pair.
    rng = np.random.default_rng(1)
    moved = 0
    for _ in range(200):
        pairs = tuple(rng.normal(0, 0.1, 60))
        looks = [Baseline(pairs=pairs[max(0, n - MOST_PAIRS) : n]).pace(1.0) for n in range(4, 61)]
        moved += any(pace is not Pace.UNKNOWN for pace in looks)
    assert moved <= 4
