"""Several engines: one first, then the rest; restarts one at a time."""

from __future__ import annotations

import pytest
from tests.support.scenario import Scenario


@pytest.fixture
def three(scenario: Scenario) -> Scenario:
    """Three engines serve v1."""
    scenario.given.drafters(v1=0.8, v2=0.8, v4=0.0, v5=0.4).server("v1", floor="2.2", replicas=3).traffic(1)
    scenario.when.time(60)
    return scenario


def test_one_engine_goes_first_and_the_rest_once_it_is_healthy(three):
    three.when.drafter("v2").time(10)
    three.then.serves("v2", pods=1).serves("v1", pods=2)
    three.when.time(60)
    three.then.serves("v2").last_good("v2").pods_made(3).quiet()


def test_a_bad_candidate_touches_one_engine_only(three):
    three.when.drafter("v5").time(60)
    three.then.serves("v1").swaps("v5", 1).rollbacks(1).quiet()
    three.when.drafter("v4").time(30)
    three.then.serves("v1").swaps("v4", 1).quiet()


def test_figures_are_of_a_candidate_on_whichever_engine_it_serves(three):
    cluster = three.cluster
    first = cluster.pods["kimi-0"].agent
    first.restart(cluster.launch_plan)  # so that another engine takes the candidate
    three.when.drafter("v2").time(20)
    three.then.serves("v2", pods=1).serves("v1", pods=2)
    assert first.serving == first.promoted
    assert cluster.status.acceptance.revision == cluster.status.candidate.revision


def test_figures_are_of_all_engines_that_serve_the_drafter(three):
    three.cluster.hard_traffic = {"kimi-0": 0.8}
    three.when.time(900)
    on_the_first, on_the_others = (sum(chance**k for k in range(4)) for chance in (0.8 * 0.8, 0.8))
    pooled = (on_the_first + 2 * on_the_others) / 3
    assert float(three.cluster.status.acceptance.accept_length) == pytest.approx(pooled, abs=0.12)


def test_a_pod_that_joins_during_a_trial_starts_with_the_promoted_drafter(three):
    three.when.drafter("v2").time(10).spec(replicas=4).time(6)
    three.then.serves("v2", pods=1).serves("v1", pods=3)
    three.when.time(90)
    three.then.serves("v2").last_good("v2").quiet()


def test_a_change_that_restarts_goes_one_pod_at_a_time(three):
    three.cluster.most_down = 0
    three.when.spec(engine={"contextLength": 4096}).time(120)
    three.then.serves("v1").pods_made(6).condition("DrafterCurrent", "True", "Active").quiet()
    assert three.cluster.most_down <= 1
    assert not [
        order for made in three.cluster.plans for order in made.commands if order.command.verb == "Swap"
    ]
    assert "--context-length" in three.cluster.launch_plan.arguments


def test_another_claim_needs_a_restart(three):
    three.when.spec(engine={"volumes": ["more"]}).time(120)
    three.then.pods_made(6).serves("v1").quiet()


def test_what_lives_in_the_launch_plan_restarts_nobody(three):
    three.when.spec(engine={"warmupSeconds": 99}).time(60)
    three.then.pods_made(3).quiet()
    assert three.cluster.launch_plan.warmup_seconds == 99


def test_a_bad_drafter_that_came_with_a_restart_is_switched_off_and_last_good_comes_back(three):
    three.when.spec(engine={"contextLength": 4096}, drafter={"model": "pvc://models/drafters/v4"}).time(400)
    three.then.serves("v1").drafting("On").condition("Stalled", "True", "DrafterRejected").quiet()


def test_scaling_to_zero_is_no_fault(three):
    three.when.spec(replicas=0).time(30)
    three.then.condition("Ready", "True", "ScaledToZero").condition("Stalled", "False").quiet()


def test_scaling_to_zero_in_the_middle_of_a_rollout_is_no_fault_either(three):
    three.when.traffic(0).drafter("v2").time(20)
    three.then.condition("Reconciling", "True", "WaitingForTraffic")
    three.when.spec(replicas=0).time(1000)
    three.then.condition("Ready", "True", "ScaledToZero").condition("Stalled", "False")
    three.then.condition("Reconciling", "False", "ScaledToZero").condition(
        "DrafterCurrent", "False", "ScaledToZero"
    ).quiet()
    three.when.spec(replicas=1).traffic(1).time(200)
    three.then.condition("DrafterCurrent", "True").last_good("v2").quiet()


def test_one_engine_that_ends_is_no_verdict(three):
    del three.cluster.pods["kimi-1"]
    three.when.time(30)
    three.then.serves("v1").condition("Ready", "True").no_event("RolledBack").quiet()
