"""The counter table: sums that give an accept length and its variance."""

from __future__ import annotations

import timeit

from specdec.engine.plugin.counters import Drafted, Key, Table
from specdec.engine.protocol import Source

KEY = Key("r1", 3, Source.TRAFFIC)


def test_correct_drafts_are_counted_by_position():
    table = Table()
    for correct in (0, 1, 3):
        table.add_row(KEY, correct, correct + 1)
    (counters,) = table.snapshot()
    assert counters.calls == 3
    assert counters.correct == (2, 1, 1)
    assert counters.tokens == 7
    assert 1 + sum(counters.correct) / counters.calls == 1 + 4 / 3


def test_zero_steps_are_tokens_but_no_verify_calls():
    table = Table()
    table.add_row(KEY._replace(steps=0), 0, 1)
    (counters,) = table.snapshot()
    assert (counters.calls, counters.correct, counters.tokens) == (0, (), 1)


def test_a_request_is_booked_under_every_key_that_it_ran_under():
    table = Table()
    other = KEY._replace(revision="r2", source=Source.CARRIED)
    table.add_finished({KEY: Drafted(calls=2, drafts=5), other: Drafted(calls=1, drafts=3)})
    first, second = table.snapshot()
    assert (first.requests, first.dd, first.dc, first.cc) == (1, 25, 10, 4)
    assert (second.requests, second.dd, second.dc, second.cc) == (1, 9, 3, 1)
    assert (first.finished_drafts, first.finished_calls) == (5, 2)


def test_a_request_without_verify_calls_is_no_evidence():
    table = Table()
    table.add_finished({KEY: Drafted()})
    assert table.snapshot() == ()


def test_a_snapshot_waits_for_the_batch_that_is_being_booked():
    table = Table()
    with table:
        table.add_row(KEY, 3, 4)
        table.add_seconds(KEY, 0.25)
    (counters,) = table.snapshot()
    assert counters.seconds == "0.250000"


def test_a_batch_of_eight_costs_less_than_a_tenth_of_a_millisecond():
    table = Table()

    def batch() -> None:
        with table:
            for _ in range(8):
                table.add_row(KEY, 3, 4)
                table.add_seconds(KEY, 0.001)

    # The best of many runs is what the code costs; the others are what else the machine did.
    assert min(timeit.repeat(batch, number=10, repeat=20)) / 10 < 100e-6
