"""The sequential test keeps its promises: seeded simulations of drafters as chains of drafts."""

from __future__ import annotations

import numpy as np
import pytest

from specdec.acceptance.judge import ROLLOUT, Case, Floor, verdict
from specdec.acceptance.measure import Measurement
from specdec.acceptance.sequential import below, chain_variance, probe_doubt, radius
from specdec.acceptance.tally import Tally
from specdec.acceptance.verdict import Judgement

STEPS = 3


def requests(rng: np.random.Generator, quality: float, count: int, spread: float = 0.0) -> list[Tally]:
    """Finished requests of 10 to 14 verify calls; `spread` is how much requests differ in quality."""
    tallies = []
    for _ in range(count):
        calls = int(rng.integers(10, 15))
        own = float(np.clip(quality + spread * rng.standard_normal(), 0.02, 0.98))
        right = np.cumprod(rng.random((calls, STEPS)) < own, axis=1)
        drafts = int(right.sum())
        tallies.append(
            Tally(
                requests=1,
                finished_calls=calls,
                finished_drafts=drafts,
                dd=drafts**2,
                dc=drafts * calls,
                cc=calls**2,
                calls=calls,
                correct=tuple(int(n) for n in right.sum(axis=0)),
            )
        )
    return tallies


def first_unhealthy(tallies: list[Tally], floor: float) -> int | None:
    """Verify calls after which live traffic is judged Unhealthy, looking after every request."""
    total = Tally()
    for tally in tallies:
        total += tally
        case = Case(Measurement("r", STEPS, total), Floor(floor))
        if verdict(case).judgement is Judgement.UNHEALTHY:
            return total.finished_calls
    return None


def test_a_bad_drafter_is_found_within_64_verify_calls():
    rng = np.random.default_rng(1)
    found = [first_unhealthy(requests(rng, 0.4, 30), 2.2) for _ in range(200)]
    assert all(found)
    assert sum(calls <= 64 for calls in found if calls) >= 0.9 * len(found)


@pytest.mark.parametrize("spread", [0.0, 0.05])
def test_a_good_drafter_survives_half_an_hour_of_looks(spread):
    # 40 rollouts of 1 request/s here; 600 of them were run once: 0 Unhealthy.
    rng = np.random.default_rng(2)
    assert not any(first_unhealthy(requests(rng, 0.7, 1800, spread), 2.2) for _ in range(20))


def test_a_drafter_at_the_floor_rarely_raises_a_suspicion_and_never_certainty():
    rng = np.random.default_rng(3)
    suspected = 0
    for _ in range(60):
        total = Tally()
        crossed = False
        for tally in requests(rng, 0.6075, 400):
            total += tally
            crossed = crossed or below(total, 2.2, STEPS, 0.1)
            assert not below(total, 2.2, STEPS, 1e-4)
        suspected += crossed
    assert suspected <= 12


def test_four_identical_requests_are_not_certainty():
    four = Tally(
        requests=4,
        finished_calls=40,
        finished_drafts=40,
        dd=400,
        dc=400,
        cc=400,
        calls=40,
        correct=(40, 0, 0),
    )
    assert radius(four, 2.2, STEPS, ROLLOUT.alpha) > 0.3


def test_a_single_request_says_nothing():
    one = Tally(requests=1, finished_calls=500, finished_drafts=0, cc=250_000, calls=500)
    assert not below(one, 2.2, STEPS, 0.1)


def test_a_dead_drafter_is_below_any_limit_although_its_requests_do_not_differ():
    dead = Tally(requests=12, finished_calls=144, finished_drafts=0, dd=0, dc=0, cc=12 * 144, calls=144)
    assert below(dead, 2.2, STEPS, 1e-4)
    assert below(dead, 1.1, STEPS, 0.1)


@pytest.mark.parametrize(("mean", "variance"), [(0.0, 0.0), (0.624, 0.8106), (1.533, 1.5349), (3.0, 0.0)])
def test_the_variance_of_a_chain_is_that_of_its_mean(mean, variance):
    assert chain_variance(mean, STEPS) == pytest.approx(variance, abs=2e-3)


@pytest.mark.parametrize(
    ("length", "least", "most"), [(1.62, 0.0, 0.005), (2.2, 0.49, 0.51), (2.53, 0.9, 1.0)]
)
def test_a_probe_doubts_what_it_shows(length, least, most):
    assert least <= probe_doubt(length, 40, 2.2, STEPS) <= most
