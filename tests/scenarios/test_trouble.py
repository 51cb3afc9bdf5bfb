"""What goes wrong around a rollout: operator, engines, counters, and drafters that are bad from the start."""

from __future__ import annotations

import pytest
from tests.support.scenario import Scenario
from tests.support.scenario_agent import Model

from specdec.engine.protocol import Swap


@pytest.fixture
def settled(scenario: Scenario) -> Scenario:
    """v2 serves and was judged."""
    scenario.given.drafters(
        v2=0.8, v3=0.8, v4=0.0, v5=0.4, same_as_v5=Model(0.4, contents="/models/models/drafters/v5")
    ).server("v2", floor="2.2").traffic(1)
    scenario.when.time(60)
    return scenario


def test_without_an_operator_the_dead_man_switch_takes_a_candidate_back(settled):
    settled.when.drafter("v3").time(4).operator_gone().time(70)
    settled.then.serves("v2")
    settled.when.operator_back().time(1)
    settled.then.event("NotConfirmed", "it is tried again").serves("v2")
    settled.when.time(100)
    settled.then.serves("v3").last_good("v3").swaps("v3", 2).quiet()


def test_another_operator_carries_a_rollout_on(settled):
    settled.when.drafter("v3").time(4).operator_gone().time(5).operator_back().time(60)
    settled.then.serves("v3").last_good("v3").swaps("v3", 1).quiet()


def test_an_operator_that_was_away_changes_nothing_at_rest(settled):
    settled.when.operator_gone().time(600).operator_back()
    settled.then.quiet()


def test_silent_engines_hold_everything(settled):
    settled.when.engines_silent().time(60)
    settled.then.serves("v2").condition("AcceptanceHealthy", "Unknown", "EnginesSilent").rollbacks(0)
    settled.when.drafter("v3").time(60)
    settled.then.serves("v2").no_event("RolledBack")


def test_silence_that_is_over_is_told_no_longer_even_without_traffic(settled):
    settled.when.traffic(0).engines_silent().time(60)
    settled.then.condition("AcceptanceHealthy", "Unknown", "EnginesSilent")
    settled.when.engines_heard().time(30)
    settled.then.condition("AcceptanceHealthy", "True", "AboveFloor")


def test_an_operator_that_has_just_begun_calls_nobody_silent_at_its_first_question(settled):
    settled.when.traffic(0).operator_gone().engines_silent().operator_back().time(20)
    settled.then.condition("AcceptanceHealthy", "True", "AboveFloor")
    settled.when.time(30)
    settled.then.condition("AcceptanceHealthy", "Unknown", "EnginesSilent")
    settled.when.engines_heard().time(10)
    settled.then.condition("AcceptanceHealthy", "Unknown", "NoTraffic")


def test_lying_counters_are_unknown_and_decide_nothing(settled):
    settled.when.drafter("v3").time(4).engines_lie().time(120)
    settled.then.serves("v3").active("v2").rollbacks(0)
    settled.then.condition("AcceptanceHealthy", "Unknown", "CountersImpossible")
    settled.then.condition("Reconciling", "True", "Judging").says(
        "Reconciling", "counters contradict each other"
    )


def test_without_traffic_a_candidate_is_neither_promoted_nor_taken_back(settled):
    settled.when.traffic(0).drafter("v3").time(300)
    settled.then.serves("v3").active("v2").rollbacks(0).rollout("Judging")
    settled.then.condition("Reconciling", "True", "WaitingForTraffic").says(
        "Reconciling", "`promote` keeps it without"
    )
    settled.when.time(400)
    settled.then.condition("Stalled", "True", "ProgressDeadlineExceeded").serves("v3")
    settled.when.traffic(1).time(60)
    settled.then.last_good("v3").condition("Stalled", "False").quiet()


def test_odd_traffic_alone_moves_nothing_when_the_probe_is_fine(settled):
    settled.given.drafters(v6=Model(0.4, probe_quality=0.9))
    settled.when.drafter("v6").time(120)
    settled.then.serves("v6").rollbacks(0).active("v2")
    settled.then.condition("AcceptanceHealthy", "Unknown", "ProbeContradictsTraffic")
    settled.then.says("Reconciling", "v6 serves and looks bad on users' requests but good on the agent's own")


def test_a_shift_of_the_workload_keeps_the_drafter_and_says_so_once(settled):
    settled.when.quality("v2", Model(0.4, probe_quality=0.8)).time(2400)  # O-h03
    settled.then.serves("v2").rollbacks(0).condition("Ready", "True")
    settled.then.condition("AcceptanceHealthy", "Unknown", "ProbeContradictsTraffic")
    settled.then.event("ProbeContradictsTraffic", "the drafter is kept", times=1)


def test_a_dead_first_drafter_is_switched_off_and_users_are_served(scenario):
    scenario.given.drafters(v1=0.0, v2=0.8).server("v1", floor="2.2").traffic(1)
    scenario.when.time(30)
    scenario.then.drafting("Off").condition("Ready", "True", "ServingWithoutDrafting").last_good(None)
    scenario.then.condition("DrafterCurrent", "False", "DrafterRejected").condition("Stalled", "True")
    scenario.then.pods_made(1).quiet()
    scenario.when.drafter("v2").time(90)
    scenario.then.drafting("On").serves("v2").last_good("v2").pods_made(1).quiet()


@pytest.mark.parametrize("why", ["the spec", "a bad drafter"])
def test_drafting_off_stays_as_it_is_where_the_engine_decodes_plainly(scenario, why):
    scenario.given.drafters(v1=0.8 if why == "the spec" else 0.0).server(
        "v1", floor="2.2", rollout={"fallbackRestartSeconds": 600}
    ).traffic(1)
    scenario.when.time(60).spec(drafting="Off" if why == "the spec" else "Auto").time(900)
    scenario.then.pods_made(1).drafting("Off").condition("Ready", "True").quiet()


def test_where_off_is_slow_it_is_a_bridge_to_a_restart_without_a_drafter(scenario):
    scenario.given.slow_off().drafters(v1=0.0, v2=0.8).server(
        "v1", floor="2.2", rollout={"fallbackRestartSeconds": 600}
    ).traffic(1)
    scenario.when.time(500)
    scenario.then.pods_made(1).drafting("Off")
    scenario.when.time(300)
    scenario.then.pods_made(2).condition("Ready", "True")
    assert scenario.cluster.launch_plan.drafter is None
    scenario.then.quiet()
    scenario.when.drafter("v2").time(120)
    scenario.then.serves("v2").last_good("v2").pods_made(3).quiet()


def test_a_candidate_that_fails_after_a_bad_first_drafter_leaves_drafting_off(scenario):
    scenario.given.drafters(v1=0.4, v2=0.45).server("v1", floor="2.2").traffic(1)
    scenario.when.time(60)
    scenario.then.drafting("Off").condition("DrafterCurrent", "False", "DrafterRejected")
    scenario.when.drafter("v2").time(90)
    scenario.then.drafting("Off").event("RolledBack", "v2").pods_made(1).quiet()


def test_an_active_drafter_that_goes_bad_later_is_replaced_by_the_one_before(settled):
    settled.when.drafter("v3").time(60)
    settled.then.serves("v3").last_good("v3")
    settled.when.quality("v3", Model(0.1)).time(1500)
    settled.then.serves("v2").last_good("v2").condition("DrafterCurrent", "False", "DrafterRejected").quiet()
    assert settled.cluster.launch_plan.drafter.version == "v2"


def test_a_new_path_with_quarantined_contents_is_refused(settled):
    settled.when.drafter("v5").time(40).drafter("same_as_v5").time(30)
    settled.then.serves("v2").condition("DrafterCurrent", "False", "DrafterQuarantined")
    settled.then.event("Refused", "has the contents of v5").quiet()


def test_quarantined_contents_get_a_trial_on_other_layers(settled):
    settled.when.drafter("v5").time(40)
    settled.when.quality("v5", Model(0.8, contents="/models/models/drafters/v5"))
    settled.when.spec(drafter={"layers": {"convention": "Output"}}).time(60)
    settled.then.serves("v5").last_good("v5").swaps("v5", 2).quiet()
    settled.when.spec(drafter={"layers": None}).time(30)
    settled.then.serves("v5").condition("DrafterCurrent", "False", "DrafterQuarantined")


def test_the_same_bad_drafter_applied_again_and_again_is_tried_once(settled):
    for _ in range(20):  # O-e02: GitOps applies the same B every three minutes
        settled.when.drafter("v5").time(180)
    settled.then.swaps("v5", 1).rollbacks(1).pods_made(1).serves("v2")


def test_a_folder_that_never_appears_is_looked_for_twice_a_minute_however_long_that_lasts(settled):
    settled.when.drafter("nowhere").time(1800)
    settled.then.serves("v2").condition("Stalled", "True")
    assert len(settled.then.told(Swap)) <= 1800 / 30 + 1


def test_a_restarted_engine_begins_to_count_anew(settled):
    settled.when.engine_restarts().time(60)  # O-d06
    settled.then.serves("v2").condition("AcceptanceHealthy", "True").quiet()


def test_a_replaced_pod_is_no_verdict_on_the_drafter(settled):
    settled.cluster.pods.clear()  # O-e03: preempted
    settled.when.time(60)
    settled.then.serves("v2").condition("Stalled", "False").no_event("RolledBack")
    assert not settled.cluster.status.quarantine
