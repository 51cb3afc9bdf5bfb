"""Candidate beside active: what the paired test finds, what it must leave alone, and when it holds its tongue."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from specdec.acceptance.compare import BUCKET_SECONDS, Arm, Comparison
from specdec.acceptance.judge import ROLLOUT, Case, Floor, Rival, verdict
from specdec.acceptance.measure import Measurement, PodState
from specdec.acceptance.routing import Dealt, Routing
from specdec.acceptance.tally import Tally
from specdec.acceptance.verdict import Judgement

HARD, EASY = 0.35, 0.8


def request(rng: np.random.Generator, quality: float) -> Arm:
    """One finished request of a chain drafter; requests differ."""
    calls = int(rng.integers(30, 200))
    chance = float(np.clip(quality + 0.08 * rng.standard_normal(), 0.01, 0.97))
    return Arm(1, calls, int(np.cumprod(rng.random((calls, 3)) < chance, axis=1).sum()))


def compared(
    seed: int, candidate: float, active: float, *, looks: int = 300, kept: float = 0.95
) -> Comparison:
    """Both arms finish a request at each look; the traffic turns hard and easy again every 40 looks."""
    rng = np.random.default_rng(seed)
    found = Comparison(3, kept)
    for look in range(looks):
        shift = HARD / EASY if look // 40 % 2 else 1.0
        found = found.fed(request(rng, candidate * shift), request(rng, active * shift), float(look))
    return found


def test_traffic_that_moves_both_arms_alike_is_no_regression():
    assert not any(compared(seed, EASY, EASY).worse(ROLLOUT.paired) for seed in range(30))


def test_a_regression_is_found_under_the_same_traffic():
    assert all(compared(seed, 0.6, EASY).worse(ROLLOUT.paired) for seed in range(20))


def test_a_better_candidate_is_never_bet_against():
    better = compared(1, EASY, 0.6)
    assert better.peak < 1
    assert not better.behind


def test_a_late_fault_is_found_as_soon_as_an_early_one():
    rng = np.random.default_rng(2)
    early = Comparison(3, 0.95)
    late = compared(3, EASY, EASY, looks=400)
    for look in range(400, 440):
        pair = request(rng, 0.3), request(rng, EASY)
        early, late = early.fed(*pair, float(look)), late.fed(*pair, float(look))
    assert early.worse(ROLLOUT.paired)
    assert late.worse(ROLLOUT.paired)


@pytest.mark.parametrize(("kept", "steps"), [(0.0, 1), (0.5, 1), (0.95, 1), (1.0, 16)])
def test_the_wealth_stays_positive_whatever_comes(kept, steps):
    found = Comparison(steps, kept)
    for look in range(200):
        extreme = steps * 100 if look > 100 else 0
        found = found.fed(Arm(1, 100, extreme), Arm(1, 100, steps * 100 - extreme), float(look))
    assert np.isfinite(found.wealth)


def test_requests_of_another_time_are_not_compared():
    found = Comparison(3, 0.95).fed(Arm(1, 10, 0), Arm(), 0.0)
    assert found.fed(Arm(), Arm(1, 10, 30), BUCKET_SECONDS + 1).buckets == 0
    assert found.fed(Arm(), Arm(1, 10, 30), BUCKET_SECONDS - 1).buckets == 1


def routed(seed: int, qualities: tuple[tuple[float, float], ...], looks: int = 200) -> Dealt:
    """Two engines with one drafter; each pair of qualities holds for 40 looks, 5 s apart."""
    rng = np.random.default_rng(seed)
    routing = Routing()
    for look in range(looks):
        each = qualities[look // 40 % len(qualities)]
        arms = {str(number): request(rng, quality) for number, quality in enumerate(each)}
        routing = routing.fed(arms, 5.0 * look)
    return routing.dealt


def test_requests_that_stick_to_engines_are_noticed():
    assert {routed(seed, ((EASY, HARD), (HARD, EASY))) for seed in range(20)} == {Dealt.STICKY}


def test_even_routing_is_recognised_although_the_mix_moves():
    assert {routed(seed, ((EASY, EASY), (HARD, HARD))) for seed in range(20)} == {Dealt.EVENLY}


def test_little_history_and_one_engine_say_nothing():
    assert routed(1, ((EASY, EASY),), looks=20) is Dealt.UNCHECKED
    assert routed(1, ((EASY,),)) is Dealt.UNCHECKED


@pytest.mark.parametrize(
    ("dealt", "judgement", "reason"),
    [
        (Dealt.EVENLY, Judgement.UNHEALTHY, "WorseThanActive"),
        (Dealt.STICKY, Judgement.UNKNOWN, "StickyRouting"),
        (Dealt.UNCHECKED, Judgement.UNKNOWN, "RoutingUnchecked"),
    ],
)
def test_only_even_traffic_makes_a_regression_a_verdict(dealt, judgement, reason):
    said = verdict(case(compared(1, 0.5, EASY), dealt))
    assert (said.judgement, said.reason, said.needs_probe) == (judgement, reason, False)


def test_a_candidate_that_is_behind_by_chance_is_held_and_one_that_leads_is_not():
    behind = Comparison(3, 0.95, buckets=3, candidate_sum=3.0, active_sum=6.0, requests=3)
    assert verdict(case(behind, Dealt.EVENLY)).reason == "NearActive"
    assert verdict(case(compared(1, EASY, EASY), Dealt.EVENLY)).judgement is Judgement.HEALTHY


def test_a_candidate_that_was_behind_is_held_no_longer_once_nothing_serves_beside_it():
    behind = Comparison(3, 0.95, buckets=3, candidate_sum=3.0, active_sum=6.0, requests=3)
    alone = case(behind, Dealt.EVENLY)
    assert alone.rival is not None
    assert verdict(replace(alone, rival=replace(alone.rival, serves=False))).judgement is Judgement.HEALTHY


def test_the_sentence_names_both_and_the_limit():
    said = verdict(
        case(Comparison(3, 0.95, peak=20.0, buckets=4, candidate_sum=4.0, active_sum=8.2, requests=9))
    )
    assert said.message == "accept length 2.00 < 0.95 x 3.05 of v1 beside it, over 9 requests"


def case(comparison: Comparison, dealt: Dealt = Dealt.EVENLY) -> Case:
    tally = Tally(20, 240, 360, 20 * 18**2, 20 * 18 * 12, 20 * 12**2, 240, (240, 100, 20))
    seen = Measurement("r", 3, tally, {"a": PodState.COUNTING})
    return Case(seen, Floor(), rival=Rival("v1", comparison, dealt))
