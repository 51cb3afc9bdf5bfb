from __future__ import annotations

import random

import pytest

from specdec.engine.agent.verdict import Tally, decided, degenerate, drafts, tail, tally
from specdec.engine.protocol import Counters, Source


@pytest.mark.parametrize(
    ("first", "calls", "expected"),
    [
        (0, 40, False),
        (7, 40, False),
        (8, 40, True),
        (40, 40, True),
        (39, 39, False),
        (0, 0, False),
        (10, 120, False),
        (16, 120, True),
    ],
)
def test_whether_it_drafts(first, calls, expected):
    assert drafts(Tally(calls=calls, first=first, correct=first)) is expected


def test_the_tail_is_the_binomials():
    assert tail(0, 40) == 1
    assert tail(1, 40) == pytest.approx(1 - 0.95**40)
    assert tail(8, 40) == pytest.approx(0.0007115, rel=0.001)


@pytest.mark.parametrize(
    ("first", "calls", "expected"),
    [(8, 39, False), (8, 40, True), (2, 40, True), (3, 40, False), (7, 80, False), (9, 160, True)],
)
def test_when_more_calls_would_not_help(first, calls, expected):
    assert decided(Tally(calls=calls, first=first)) is expected


@pytest.mark.parametrize(
    ("first", "calls", "expected"),
    [(4, 16, False), (5, 16, True), (15, 15, False), (0, 39, False), (2, 40, True)],
)
def test_fewer_calls_than_usual_can_only_say_that_it_drafts(first, calls, expected):
    seen = Tally(calls=calls, first=first)
    assert decided(seen, enough=16) is expected
    assert drafts(seen, enough=16) is (expected and calls < 40)


def verdict(chance: float, seed: int) -> bool:
    """Run a probe against a drafter with this chance of a right first token."""
    draw = random.Random(seed)
    seen = Tally()
    while not decided(seen):
        hit = draw.random() < chance
        seen = Tally(seen.calls + 1, seen.first + hit, seen.correct + hit)
    return drafts(seen)


def test_dead_drafters_fail_and_poor_ones_pass():
    runs = range(2000)
    assert sum(verdict(0.03, seed) for seed in runs) <= 4
    assert sum(verdict(0.4, seed) for seed in runs) >= 1990


def test_sums_the_probes_rows_of_one_revision():
    def row(revision: str, steps: int, source: Source) -> Counters:
        return Counters(revision=revision, steps=steps, source=source, calls=10, correct=(6, 3, 1)[:steps])

    rows = [
        row("b", 3, Source.PROBE),
        row("b", 1, Source.PROBE),
        row("b", 0, Source.PROBE),
        row("b", 3, Source.TRAFFIC),
        row("a", 3, Source.PROBE),
    ]
    found = tally(rows, "b")
    assert found == Tally(calls=20, first=12, correct=16)
    assert found.accept_length == pytest.approx(1.8)
    assert (found - Tally(5, 2, 3)) == Tally(15, 10, 13)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", True),
        (" \n", True),
        ("Yes.", False),
        ("The sky is blue since air scatters blue light most.", False),
        ("!!!!!!!!!!!!!!!!!!!!!!!!", True),
        ("abababababababababab", True),
        ("  the the the the the the ", True),
        ("1, 1, 2, 3, 5, 8, 13, 21, 34", False),
    ],
)
def test_degenerate_answers(text, expected):
    assert degenerate(text) is expected
