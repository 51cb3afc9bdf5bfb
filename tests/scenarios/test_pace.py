"""Drafting against none: found slower, switched off, tried again; never while it pays or the engine is full."""

from __future__ import annotations

import pytest
from tests.support.scenario import Scenario
from tests.support.scenario_agent import Model

from specdec.engine.protocol import Drafting, SetDrafting, Source

MINUTE, HOUR = 60.0, 3600.0


def served(scenario: Scenario, speedup: float, **acceptance: str) -> Scenario:
    """v1 is promoted and has served for a minute, at 1 request/s."""
    scenario.given.drafters(v1=Model(quality=0.7, speedup=speedup))
    scenario.given.server("v1", acceptance={"baseline": "Measure", **acceptance}).traffic(1)
    scenario.when.time(MINUTE)
    scenario.then.last_good("v1")
    return scenario


def seconds_without(scenario: Scenario, seconds: float) -> float:
    """Let time pass and count how long the first engine did not draft."""
    agent, without = scenario.cluster.pods["kimi-0"].agent, 0.0
    for _ in range(int(seconds / 0.5)):
        scenario.cluster.step()
        without += 0.5 * (agent.status().drafting is Drafting.OFF)
    return without


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_loss_is_found_within_five_minutes_in_probation(seed):
    scenario = served(Scenario(seed), 0.8)
    scenario.when.time(4 * MINUTE)
    assert scenario.cluster.status.slower_since
    scenario.then.event("DraftingOff", "x the speed with drafting off, which flatters, over", times=1)
    scenario.then.condition("AcceptanceHealthy", "False", "SlowerThanNoDrafting")
    scenario.then.condition("Ready", "True", "ServingWithoutDrafting").last_good("v1")
    scenario.then.no_event("RolledBack").rollbacks(0)


def test_a_loss_that_comes_after_probation_is_found_within_two_hours():
    scenario = served(Scenario(), 1.4)
    scenario.when.time(40 * MINUTE)
    assert float(scenario.cluster.status.acceptance.speedup) == pytest.approx(1.4, abs=0.15)
    scenario.when.quality("v1", Model(quality=0.7, speedup=0.8)).time(2 * HOUR)
    assert scenario.cluster.status.slower_since


@pytest.mark.parametrize("seed", [1, 2])
def test_a_gain_is_never_switched_off(seed):
    scenario = served(Scenario(seed), 1.3)
    scenario.when.time(HOUR)
    scenario.then.no_event("DraftingOff").condition("AcceptanceHealthy", "True", "Alive")
    scenario.then.condition("Ready", "True", "Serving")
    assert float(scenario.cluster.status.acceptance.speedup) == pytest.approx(1.3, abs=0.15)


def test_blocks_keep_to_their_budget():
    scenario = served(Scenario(), 1.3)
    assert 0.05 <= seconds_without(scenario, 20 * MINUTE) / (20 * MINUTE) <= 0.12
    scenario.when.time(15 * MINUTE)
    assert 0.005 <= seconds_without(scenario, HOUR) / HOUR <= 0.013


def test_drafting_that_pays_again_is_found_and_switched_on():
    scenario = served(Scenario(), 0.8)
    scenario.when.time(4 * MINUTE).quality("v1", Model(quality=0.7, speedup=1.4)).time(20 * MINUTE)
    scenario.then.condition("Ready", "True", "Serving").event("Serving", "engines draft again", times=1)
    assert not scenario.cluster.status.slower_since


def test_while_it_is_off_short_blocks_try_it_again():
    scenario = served(Scenario(), 0.8)
    scenario.when.time(4 * MINUTE)
    assert 0.85 <= seconds_without(scenario, 10 * MINUTE) / (10 * MINUTE) <= 0.95
    assert scenario.cluster.status.slower_since


def test_a_full_engine_is_left_alone():
    scenario = served(Scenario(), 1.3)
    scenario.cluster.pods["kimi-0"].agent.busy = 47
    scenario.when.time(10)
    assert seconds_without(scenario, 10 * MINUTE) == 0


def test_without_traffic_nothing_is_switched():
    scenario = served(Scenario(), 1.3)
    scenario.when.traffic(0).time(10)
    assert seconds_without(scenario, 10 * MINUTE) == 0


def test_without_the_users_wish_nothing_is_measured():
    scenario = served(Scenario(), 0.8, baseline="Off")
    scenario.when.time(10 * MINUTE)
    assert scenario.then.told(SetDrafting) == []
    assert scenario.cluster.status.acceptance.speedup == ""


def test_the_factor_of_off_decides_where_off_is_no_plain_server():
    scenario = served(Scenario(), 1.2, offFactor="0.6")
    scenario.when.time(5 * MINUTE)
    scenario.then.event("DraftingOff", "x the speed of a server without a drafter", times=1)


def test_a_new_candidate_drafts_although_the_old_one_did_not_pay():
    scenario = served(Scenario(), 0.8)
    scenario.given.drafters(v2=Model(quality=0.9, speedup=1.5))
    scenario.when.time(4 * MINUTE).drafter("v2").time(20 * MINUTE)
    scenario.then.serves("v2").last_good("v2").condition("Ready", "True", "Serving")


def in_a_block(scenario: Scenario, mode: Drafting) -> None:
    """Let time pass until the engine is in a block, and kill the operator there."""
    for _ in range(200):
        if scenario.cluster.pods["kimi-0"].agent.drafting is mode:
            break
        scenario.cluster.step()
    scenario.then.drafting(mode.value)
    scenario.when.operator_gone()


def test_a_block_in_which_the_operator_dies_ends_by_itself():
    scenario = served(Scenario(), 1.3)
    in_a_block(scenario, Drafting.OFF)
    scenario.when.time(11)
    scenario.then.drafting("On")
    scenario.when.time(HOUR)
    scenario.then.drafting("On")
    scenario.when.operator_back().time(1)
    scenario.then.drafting("On").no_event("DraftingOff")


def test_a_block_of_drafting_that_does_not_pay_ends_by_itself_as_well():
    scenario = served(Scenario(), 0.8)
    scenario.when.time(4 * MINUTE)
    assert scenario.cluster.status.slower_since
    in_a_block(scenario, Drafting.ON)
    scenario.when.time(11)
    scenario.then.drafting("Off")


def test_what_was_decided_in_a_block_lasts_without_the_operator():
    # The block's own order would end: the decision must be told as one that lasts.
    scenario = served(Scenario(), 0.8)
    while not scenario.cluster.status.slower_since:
        scenario.cluster.step()
    scenario.when.time(1).operator_gone().time(MINUTE)
    scenario.then.drafting("Off")


def test_an_engine_that_restarts_in_a_block_drafts():
    scenario = served(Scenario(), 1.3)
    in_a_block(scenario, Drafting.OFF)
    scenario.when.engine_restarts().time(5)
    scenario.then.drafting("On")


def test_requests_in_flight_at_a_resume_count_for_nothing():
    # Off is cold: what was decoded meanwhile has no draft KV, so those requests draft badly until they end.
    scenario = served(Scenario(), 1.3)
    scenario.when.time(20 * MINUTE)
    agent = scenario.cluster.pods["kimi-0"].agent
    carried = [row for row in agent.counters.values() if row.source is Source.CARRIED]
    counted = [row for row in agent.counters.values() if row.source is Source.TRAFFIC and row.steps]
    assert sum(row.requests for row in carried) > 0.03 * sum(row.requests for row in counted)
    shown = scenario.cluster.status.acceptance
    assert float(shown.speedup) == pytest.approx(1.3, abs=0.15)
    assert float(shown.accept_length) == pytest.approx(1 + 0.7 + 0.49 + 0.343, abs=0.15)
    scenario.then.condition("AcceptanceHealthy", "True", "Alive").no_event("DraftingOff")


def test_only_one_engine_is_measured():
    scenario = Scenario()
    scenario.given.drafters(v1=Model(quality=0.7, speedup=1.3))
    scenario.given.server("v1", replicas=2, acceptance={"baseline": "Measure"}).traffic(1)
    scenario.when.time(5 * MINUTE)
    told = {uid for uid, command in scenario.cluster.told if isinstance(command, SetDrafting)}
    assert told == {scenario.cluster.pods["kimi-0"].uid}
