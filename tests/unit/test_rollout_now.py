"""How long the rules of a pass answer as they do."""

import operator
from collections.abc import Callable
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specdec.rollout.now import Now

COMPARISONS = [operator.ge, operator.gt, operator.le, operator.lt]
moments = st.integers(0, 2_000).map(float)


def test_rules_that_wait_for_nothing_hold_for_ever():
    assert Now(100).holds == inf


def test_the_nearest_limit_counts_and_one_that_is_over_does_not():
    now = Now(100)
    assert (now - 95 >= 30, now - 40 > 30, now - 90 < 600) == (False, True, True)
    assert now.holds == 25


@given(then=moments, limit=moments, compare=st.sampled_from(COMPARISONS), turned=st.booleans())
def test_a_rule_answers_the_same_until_it_says_that_it_may_not(
    then: float, limit: float, compare: Callable[[float, float], bool], turned: bool
):
    def rule(now: float) -> bool:
        return compare(limit, now - then) if turned else compare(now - then, limit)

    now = Now(1_000)
    said = rule(now)
    assert said == rule(1_000.0)
    for later in (0.0, 0.25, 0.5, 0.99):
        if now.holds < inf:
            assert rule(1_000.0 + later * now.holds) == said or now.holds == 0
        else:
            assert rule(1_000.0 + later * 10_000) == said


@pytest.mark.parametrize("at", [Now(5.0), 5.0])
def test_a_pass_has_one_now(at: float):
    now = Now.at(at)
    assert (now, Now.at(now) is now) == (5.0, True)
