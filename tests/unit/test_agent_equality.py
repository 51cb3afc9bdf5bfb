"""Whether drafting changed an answer: a near tie is none, and plain decoding says what near is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specdec.engine.agent.equality import LEAST_TOLERANCE, agreement, parting, tolerance
from specdec.engine.protocol import Agreement

NATS = st.floats(min_value=0, max_value=50)


@pytest.mark.parametrize(
    ("one", "other", "place"),
    [
        ([1, 2, 3], [1, 2, 3], None),
        ([1, 2, 3], [1, 2], None),
        ([], [1], None),
        ([1, 9, 3], [1, 2, 3], 1),
        ([9], [1, 2, 3], 0),
    ],
)
def test_where_answers_part(one, other, place):
    assert parting(one, other) == place


@pytest.mark.parametrize(
    ("parted", "plain", "expected"),
    [
        ([], [], Agreement.SAME),
        ([0.125], [0.0] * 200, Agreement.SAME),
        ([0.3], [0.0] * 200, Agreement.DIFFERENT),
        ([0.3], [0.0] * 199 + [0.2], Agreement.SAME),
        ([0.125, 5.0], [0.0] * 199 + [0.2], Agreement.DIFFERENT),
        # One outlier in two thousand tokens is beyond the quantile: it must not excuse everything.
        ([5.0], [0.0] * 1999 + [4.0], Agreement.DIFFERENT),
    ],
)
def test_a_near_tie_is_told_from_another_answer(parted, plain, expected):
    assert agreement(parted, plain) is expected


@given(st.lists(NATS), st.lists(NATS))
def test_less_noise_in_plain_decoding_never_excuses_more(parted, plain):
    assert tolerance(plain) >= LEAST_TOLERANCE
    calmer = [gap / 2 for gap in plain]
    if agreement(parted, calmer) is Agreement.SAME:
        assert agreement(parted, plain) is Agreement.SAME
