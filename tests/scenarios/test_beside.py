"""Candidate beside active on several engines: domain shifts, sticky tenants, regressions above the floor."""

from __future__ import annotations

import pytest
from tests.support.scenario import Scenario
from tests.support.scenario_agent import Model


@pytest.fixture
def two(scenario: Scenario) -> Scenario:
    """Two engines served v1 for ten minutes; the traffic's mix moves both alike."""
    scenario.given.drafters(v1=0.85, v2=0.85, worse=0.6, better=0.9)
    scenario.given.server("v1", floor="1.5", replicas=2).traffic(1)
    scenario.when.time(600)
    return scenario


def test_a_regression_above_the_floor_is_rolled_back(two):
    two.when.drafter("worse").time(120)
    two.then.serves("v1").rollout("RolledBack").rollbacks(1).last_good("v1")
    two.then.event("RolledBack", "of v1 beside it", times=1)
    two.then.condition("DrafterCurrent", "False", "DrafterRejected").pods_made(2).quiet()


def test_the_candidate_never_spreads_before_it_is_compared(two):
    two.when.drafter("worse").time(120)
    two.then.swaps("worse", 1)


@pytest.mark.parametrize("version", ["v2", "better"])
def test_an_equal_or_better_drafter_is_promoted(two, version):
    two.when.drafter(version).time(300)
    two.then.serves(version).last_good(version).no_event("RolledBack").quiet()


def test_a_shift_of_traffic_that_moves_both_arms_is_no_rollback(two):
    two.when.drafter("v2").time(8)
    for version in ("v1", "v2"):
        two.when.quality(version, Model(quality=0.5, contents=version))
    two.when.time(200)
    two.then.no_event("RolledBack").serves("v2").last_good("v2")


def test_the_user_may_allow_a_regression(scenario):
    scenario.given.drafters(v1=0.85, worse=0.6)
    scenario.given.server("v1", replicas=2, acceptance={"maxRegression": "1"}).traffic(1)
    scenario.when.time(600).drafter("worse").time(200)
    scenario.then.serves("worse").last_good("worse").no_event("RolledBack")


def test_without_a_history_of_even_traffic_nothing_is_decided_by_comparison(scenario):
    scenario.given.drafters(v1=0.85, worse=0.6)
    scenario.given.server("v1", replicas=2).traffic(1)
    scenario.when.time(50).spec(rollout={"minSoakSeconds": 300}).drafter("worse").time(120)
    scenario.then.no_event("RolledBack")
    scenario.then.condition("AcceptanceHealthy", "Unknown", "RoutingUnchecked")
    scenario.then.says("Reconciling", "more minutes of traffic decide")


def test_requests_that_stick_to_engines_roll_nothing_back(scenario):
    scenario.given.drafters(v1=0.85, v2=0.85)
    scenario.given.server("v1", replicas=2, rollout={"minSoakSeconds": 300}).traffic(1)
    scenario.when.time(30)
    scenario.cluster.hard_traffic = {"kimi-0": 0.6}
    scenario.when.time(600).drafter("v2").time(200)
    scenario.then.no_event("RolledBack")
    scenario.then.condition("AcceptanceHealthy", "Unknown", "StickyRouting")
    scenario.then.says("Reconciling", "requests dealt evenly decide")
    scenario.then.event("StickyRouting", "requests stick to engines", times=1)


def test_an_operator_that_restarts_in_a_trial_decides_nothing_it_has_not_seen(two):
    two.when.drafter("worse").time(6).operator_back().time(20)
    two.then.no_event("RolledBack")
