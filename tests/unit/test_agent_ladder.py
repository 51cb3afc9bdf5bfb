from __future__ import annotations

from itertools import pairwise

import pytest

from specdec.engine.agent.failures import Blame, Failure
from specdec.engine.agent.ladder import RUNGS, Attempt, after_failure

DRAFTER = Failure("ParametersNotFed", "", Blame.DRAFTER)
GRAPHS = Failure("GraphCaptureFailed", "", Blame.GRAPHS)
UNKNOWN = Failure("EngineExited", "", Blame.UNKNOWN)
AROUND = Failure("PortInUse", "", Blame.SURROUNDINGS)
ODD_ARGUMENT = Failure("ArgumentRefused", "", Blame.SURROUNDINGS)


@pytest.mark.parametrize(
    ("failures", "platform", "rung", "with_drafter"),
    [
        ([AROUND] * 5, "cuda", 0, True),
        ([DRAFTER], "cuda", 0, False),
        ([DRAFTER, AROUND, UNKNOWN, UNKNOWN], "cuda", 0, False),
        ([UNKNOWN], "cuda", 0, True),
        ([UNKNOWN, UNKNOWN], "cuda", 0, False),
        ([UNKNOWN, UNKNOWN, UNKNOWN], "cuda", 0, True),
        ([GRAPHS], "cuda", 1, True),
        ([GRAPHS, ODD_ARGUMENT], "cuda", 2, True),
        ([GRAPHS, GRAPHS, ODD_ARGUMENT, GRAPHS], "cuda", 4, True),
        ([GRAPHS] * 9, "cuda", len(RUNGS) - 1, True),
        ([GRAPHS], "cpu", 0, True),
        ([ODD_ARGUMENT], "cuda", 0, True),
    ],
)
def test_what_the_next_start_tries(failures, platform, rung, with_drafter):
    attempt = Attempt()
    for failure in failures:
        attempt = after_failure(attempt, failure, platform=platform)
    assert (attempt.rung, attempt.with_drafter, attempt.failures) == (rung, with_drafter, len(failures))


def test_pauses_grow_to_a_minute():
    assert [Attempt(failures=count).pause_seconds for count in (0, 1, 2, 3, 6, 7, 500)] == [
        0,
        1,
        2,
        4,
        32,
        60,
        60,
    ]


def test_each_rung_captures_less_than_the_one_before_and_says_why():
    assert [rung.name for rung in RUNGS] == [
        "",
        "FewerOffGraphs",
        "SmallerGraphs",
        "SmallerGraphs",
        "NoGraphs",
    ]
    assert all(rung.why for rung in RUNGS[1:])
    for before, after in pairwise(RUNGS[:-1]):
        assert before.off_batch is None or after.off_batch is not None
