"""The counter table: sums that give an accept length and its variance."""

from __future__ import annotations

import threading

from specdec.engine.plugin.counters import Drafted, Key, Table, Tally
from specdec.engine.protocol import Counters, Source

KEY = Key("r1", 3, Source.TRAFFIC)


def _tally(steps: int, *rows: tuple[int, int]) -> Tally:
    tally = Tally(steps)
    for drafts, tokens in rows:
        tally.add(drafts, tokens)
    return tally


def test_correct_drafts_are_counted_by_position():
    table = Table()
    table.add_batch(KEY, _tally(3, (0, 1), (1, 2)), 0.5, 2)
    table.add_batch(KEY, _tally(3, (3, 4)), 0.25, 1)
    (counters,) = table.snapshot()
    assert counters.calls == 3
    assert counters.correct == (2, 1, 1)
    assert counters.tokens == 7
    assert (counters.seconds, counters.request_seconds) == ("0.750000", "1.250000")
    assert 1 + sum(counters.correct) / counters.calls == 1 + 4 / 3


def test_zero_steps_are_tokens_but_no_verify_calls():
    table = Table()
    table.add_batch(KEY._replace(steps=0), _tally(0, (0, 1)), 0.5, 1)
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
    seen: list[tuple[Counters, ...]] = []
    reader = threading.Thread(target=lambda: seen.append(table.snapshot()))
    with table:
        table.add_batch(KEY, _tally(3, (3, 4)), 0.25, 1)
        reader.start()
        reader.join(0.05)
        assert seen == []
        table.add_batch(KEY, _tally(3, (1, 2)), 0.25, 1)
    reader.join()
    assert seen[0][0].calls == 2
