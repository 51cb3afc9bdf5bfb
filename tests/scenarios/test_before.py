"""One engine: a candidate against what served before it. Traffic that shifts with the swap is no verdict."""

from __future__ import annotations

import pytest
from tests.support.scenario import Scenario
from tests.support.scenario_agent import Model

from specdec.engine.protocol import Probe


@pytest.fixture
def one(scenario: Scenario) -> Scenario:
    """One engine served v1 for two minutes, and a soak is long."""
    scenario.given.drafters(v1=0.85, v2=0.85, worse=0.5, better=0.95)
    scenario.given.server("v1", floor="1.5", rollout={"minSoakSeconds": 60}).traffic(1)
    scenario.when.time(120)
    return scenario


def test_a_regression_above_the_floor_is_rolled_back_on_one_engine_too(one):
    one.when.drafter("worse").time(20)
    one.then.serves("v1").rollout("RolledBack").rollbacks(1).last_good("v1").swaps("worse", 1)
    one.then.event("RolledBack", "of v1 before it over", times=1).event("RolledBack", "in the probes")
    one.then.condition("DrafterCurrent", "False", "DrafterRejected").pods_made(1).quiet()


@pytest.mark.parametrize("version", ["v2", "better"])
def test_an_equal_or_better_drafter_is_promoted_without_another_swap_or_probe(one, version):
    one.when.drafter(version).time(120)
    one.then.serves(version).last_good(version).swaps(version, 1).no_event("RolledBack").quiet()
    assert one.then.told(Probe) == []


def test_traffic_that_turns_hard_with_the_swap_is_no_rollback(one):
    one.when.drafter("v2").time(3)
    one.cluster.hard_traffic = {"kimi-0": 0.6}
    one.when.time(200)
    one.then.serves("v2").last_good("v2").no_event("RolledBack").quiet()
    assert len(one.then.told(Probe)) == 1


def test_traffic_that_turns_easy_with_the_swap_hides_a_regression(scenario):
    # The limit of before and after: only several replicas have an arm beside.
    scenario.given.drafters(v1=0.85, worse=0.6).server("v1", floor="1.5").traffic(1)
    scenario.cluster.hard_traffic = {"kimi-0": 0.6}
    scenario.when.time(120).drafter("worse").time(3)
    scenario.cluster.hard_traffic = {}
    scenario.when.time(120)
    scenario.then.serves("worse").no_event("RolledBack")


def test_a_hole_on_users_texts_alone_is_left_to_the_floor(one):
    one.given.drafters(hole=Model(quality=0.5, probe_quality=0.85))
    one.when.drafter("hole").time(200)
    one.then.serves("hole").last_good("hole").no_event("RolledBack")


def test_an_operator_that_restarts_in_a_trial_has_no_before(one):
    one.when.drafter("worse").time(5).operator_back().time(15)
    one.then.no_event("RolledBack")


def test_the_user_may_allow_a_regression_on_one_engine(scenario):
    scenario.given.drafters(v1=0.85, worse=0.5)
    scenario.given.server("v1", acceptance={"maxRegression": "1"}).traffic(1)
    scenario.when.time(120).drafter("worse").time(120)
    scenario.then.serves("worse").last_good("worse").no_event("RolledBack")


def test_a_suspicion_that_the_probes_leave_open_is_told_and_a_person_can_end_it(one):
    one.given.drafters(near=0.72)
    one.when.drafter("near").time(100)
    one.then.serves("near").no_event("RolledBack").last_good("v1")
    one.then.condition("AcceptanceHealthy", "False", "WorseThanActive")
    one.then.condition("Reconciling", "True", "Judging").says("Reconciling", "the agent's own leave it open")
    name = next(
        name for name, record in one.cluster.revisions.items() if record.data["drafter"]["version"] == "near"
    )
    one.when.request(f"promote@{name}@1").time(20)
    one.then.serves("near").last_good("near").condition("DrafterCurrent", "True", "Active")
