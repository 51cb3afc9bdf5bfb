"""Counter deltas: baselines, resets, silence, lies, several pods (field cases O-d03 to O-d06)."""

from __future__ import annotations

import pytest

from specdec.acceptance.measure import SILENT_SECONDS, WINDOW_REQUESTS, Ledger, PodState, Reading
from specdec.acceptance.tally import Tally
from specdec.engine.protocol import Candidate, CandidateState, Counters, Phase, Source, Status

STEPS = 3


def row(
    requests: int, length: float = 2.0, *, revision: str = "r", source: Source = Source.TRAFFIC
) -> Counters:
    """So many requests of 10 calls each with this accept length."""
    drafts = round((length - 1) * 10)
    return Counters(
        revision=revision,
        steps=STEPS,
        source=source,
        requests=requests,
        calls=10 * requests,
        correct=(min(10, drafts) * requests, max(0, drafts - 10) * requests, max(0, drafts - 20) * requests),
        dd=drafts**2 * requests,
        dc=drafts * 10 * requests,
        cc=100 * requests,
        finished_drafts=drafts * requests,
        finished_calls=10 * requests,
    )


def reading(
    *rows: Counters,
    pod: str = "a",
    boot: str = "1",
    at: float = 0.0,
    swapped_at: str = "",
    revision: str = "r",
) -> Reading:
    candidate = Candidate(revision=revision, state=CandidateState.SERVING, swapped_at=swapped_at)
    status = Status(
        serial=1,
        pod_uid=f"uid-{pod}",
        boot=boot,
        phase=Phase.SERVING,
        candidate=candidate if swapped_at else None,
        counters=rows,
    )
    return Reading(pod, status, at)


def booked(*passes: tuple[Reading, ...]) -> Ledger:
    ledger = Ledger()
    for readings in passes:
        ledger = ledger.take(readings)
    return ledger


def seen(ledger: Ledger, now: float = 0.0) -> Tally:
    return ledger.measure("r", STEPS, now).tally


def test_a_revision_that_appears_under_our_eyes_is_counted_from_its_first_request():
    assert seen(booked((reading(),), (reading(row(3)),))).requests == 3


def test_what_was_counted_before_we_looked_is_nobodys_evidence():
    assert seen(booked((reading(row(100)),), (reading(row(104)),))).requests == 4


def test_a_gauge_that_stands_still_is_no_evidence():
    same = (reading(row(100, 1.2)),)
    assert seen(booked(same, *[same] * 60)).requests == 0


def test_a_restarted_engine_counts_from_zero_and_loses_nothing():
    ledger = booked(
        (reading(row(1000)),),
        (reading(row(1200)),),
        (reading(row(30), boot="2"),),
        (reading(row(90), boot="2"),),
    )
    assert seen(ledger).requests == 200 + 90


def test_a_new_pod_does_not_inherit_a_baseline():
    ledger = booked((reading(row(1000)),), (reading(pod="b"),), (reading(row(5), pod="b"),))
    assert seen(ledger).requests == 5


def test_counters_that_fall_within_one_boot_begin_anew():
    ledger = booked((reading(),), (reading(row(50)),), (reading(row(20)),))
    assert ledger.measure("r", STEPS, 0).pods == {"a": PodState.WENT_BACK}
    assert seen(ledger.take([reading(row(24))])).requests == 4


def test_a_second_swap_of_the_same_drafter_leaves_the_first_trials_evidence_behind():
    first, second = "2026-01-01T00:00:00.0Z", "2026-01-01T01:00:00.0Z"
    ledger = booked((reading(swapped_at=first),), (reading(row(40), swapped_at=first),))
    assert seen(ledger.take([reading(row(43), swapped_at=second)])).requests == 3


@pytest.mark.parametrize("source", [Source.PROBE, Source.CARRIED])
def test_only_users_requests_of_this_revision_count(source):
    assert seen(booked((reading(),), (reading(row(9, source=source)),))).requests == 0


def test_pods_are_pooled_by_sums_and_an_idle_one_weighs_nothing():
    pods = [("a", 30, 3.0), ("b", 10, 1.0), ("c", 0, 1.0)]
    ledger = booked(
        tuple(reading(pod=pod) for pod, _, _ in pods),
        tuple(reading(row(requests, length), pod=pod) for pod, requests, length in pods),
    )
    assert seen(ledger).accept_length == pytest.approx((30 * 3.0 + 10 * 1.0) / 40)


def test_a_silent_pod_is_named_silent_and_what_it_said_still_counts():
    ledger = booked((reading(),), (reading(row(7)),))
    later = ledger.measure("r", STEPS, SILENT_SECONDS + 1)
    assert later.all_pods(PodState.SILENT)
    assert later.tally.requests == 7


@pytest.mark.parametrize(
    "lie",
    [
        {"correct": (100, 100, 101)},
        {"correct": (90, 100, 0)},
        {"correct": (10, 5, 1, 1)},
        {"finished_drafts": 301},
        {"finished_calls": 101},
        {"cc": 999},
        {"dc": 5000},
        {"requests": 101},
    ],
)
def test_impossible_sums_count_nothing_and_are_named(lie):
    bad = row(10).model_copy(update=lie)
    found = booked((reading(), reading(pod="b")), (reading(bad), reading(row(4), pod="b"))).measure(
        "r", STEPS, 0
    )
    assert found.pods == {"a": PodState.IMPOSSIBLE, "b": PodState.COUNTING}
    assert found.tally.requests == 4
    assert found.lie.startswith("a reports ")


def test_a_settled_drafter_is_judged_by_its_last_requests():
    ledger = Ledger().take([reading()])
    for requests in range(1, 2000):
        ledger = ledger.take([reading(row(requests))], frozenset({"r"}))
    assert WINDOW_REQUESTS <= seen(ledger).requests < 2 * WINDOW_REQUESTS


def test_a_pod_that_is_gone_is_forgotten():
    assert booked((reading(row(5)), reading(row(5), pod="b")), (reading(row(9)),)).heard.keys() == {"uid-a"}
