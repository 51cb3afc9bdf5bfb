"""The demo's story: five drafter versions, three of them bad in different ways."""

from __future__ import annotations

from tests.support.scenario import Scenario
from tests.support.scenario_agent import Model


def served_v2(scenario: Scenario) -> Scenario:
    """v1 started, v2 promoted in its place."""
    scenario.given.drafters(v1=1.0, v2=0.7, v3=Model(refusal="TensorsNotConsumed"), v4=0.0, v5=0.4).server(
        "v1", floor="2.2", acceptance={"maxRegression": "0.5"}
    ).traffic(1)
    scenario.when.time(60).drafter("v2").time(60)
    return scenario


def test_the_first_drafter_serves_and_becomes_last_good_once_it_is_judged(scenario):
    scenario.given.drafters(v1=1.0).server("v1", floor="2.2").traffic(1)
    scenario.when.time(8)
    scenario.then.serves("v1").active("v1").last_good(None).condition("Ready", "True", "Serving")
    scenario.then.condition("DrafterCurrent", "True", "Active")
    scenario.when.time(60)
    scenario.then.last_good("v1").rollout("Idle").condition("AcceptanceHealthy", "True", "AboveFloor")
    scenario.then.condition("Stalled", "False").condition("Reconciling", "False").pods_made(1).quiet()


def test_a_good_drafter_is_promoted_in_place(scenario):
    served_v2(scenario)
    scenario.then.serves("v2").active("v2").last_good("v2").rollout("Idle").swaps("v2", 1)
    scenario.then.event("CandidateServing", "v2").event("Promoted", "v2 is promoted", times=1)
    scenario.then.condition("DrafterCurrent", "True", "Active").pods_made(1).quiet()
    assert scenario.cluster.launch_plan.drafter.version == "v2"


def test_a_candidate_is_never_in_the_launch_plan(scenario):
    served_v2(scenario)
    scenario.when.drafter("v5").time(4)
    scenario.then.serves("v5").active("v2")
    assert scenario.cluster.launch_plan.drafter.version == "v2"
    scenario.when.engine_restarts().time(4)
    scenario.then.serves("v2")


def test_a_drafter_whose_tensors_fit_nothing_is_refused_and_the_old_one_never_stops(scenario):
    served_v2(scenario)
    scenario.when.drafter("v3").time(60)
    scenario.then.serves("v2").rollout("Refused").swaps("v3", 1).rollbacks(0)
    scenario.then.condition("Ready", "True").condition("DrafterCurrent", "False", "DrafterRejected")
    scenario.then.condition("Stalled", "True", "DrafterRejected")
    scenario.then.event("Refused", "24 tensors of the checkpoint fit no parameter; v2 serves on", times=1)
    scenario.then.pods_made(1).quiet()


def test_a_dead_drafter_is_swapped_back_by_the_agents_probe(scenario):
    served_v2(scenario)
    scenario.when.drafter("v4").time(60)
    scenario.then.serves("v2").rollout("RolledBack").swaps("v4", 1).rollbacks(0)
    scenario.then.event("RolledBack", "rolled back v4 -> v2 in 410 ms", times=1)
    scenario.then.condition("Stalled", "True", "DrafterRejected").quiet()


def test_a_drafter_below_the_floor_is_found_on_live_traffic_and_rolled_back(scenario):
    served_v2(scenario)
    scenario.when.drafter("v5").time(40)
    scenario.then.serves("v2").rollout("RolledBack").rollbacks(1).last_good("v2")
    scenario.then.event("RolledBack", "< 2.20 over", times=1)
    scenario.then.event("RolledBack", "rolled back v5 -> v2 in 410 ms", times=1)
    assert (
        scenario.cluster.revisions[
            next(r for r in scenario.cluster.revisions if "v5" in str(scenario.cluster.revisions[r].data))
        ].reason
        == "BelowFloor"
    )
    scenario.then.pods_made(1).quiet()


def test_a_rejected_drafter_is_refused_from_quarantine_without_a_swap(scenario):
    served_v2(scenario)
    scenario.when.drafter("v4").time(30).drafter("v5").time(40).drafter("v4").time(30)
    scenario.then.serves("v2").swaps("v4", 1)
    scenario.then.condition("DrafterCurrent", "False", "DrafterQuarantined")
    scenario.then.event("Refused", "v4 is refused from quarantine", times=1).quiet()


def test_the_whole_story_touches_no_pod(scenario):
    served_v2(scenario)
    for version in ("v3", "v4", "v5", "v4"):
        scenario.when.drafter(version).time(60)
        scenario.then.serves("v2").condition("Ready", "True")
    scenario.when.drafter("v1").time(60)
    scenario.then.serves("v1").condition("DrafterCurrent", "True", "Active").condition("Stalled", "False")
    scenario.then.pods_made(1).quiet()


def test_revisions_beyond_the_limit_are_forgotten_but_none_that_is_needed(scenario):
    versions = {f"g{number}": 0.9 for number in range(9)}
    scenario.given.drafters(v1=0.9, dead=0.0, **versions)
    scenario.given.server("v1", floor="2.2", revisionHistoryLimit=3).traffic(1)
    scenario.when.time(50).drafter("dead").time(10)
    for version in versions:
        scenario.when.drafter(version).time(50)
    kept = {record.data["drafter"]["version"] for record in scenario.cluster.revisions.values()}
    assert kept == {"dead", "g5", "g6", "g7", "g8"}
    scenario.when.drafter("dead").time(150)
    scenario.then.serves("g8").swaps("dead", 1).quiet()


def test_ten_minutes_under_load_need_few_status_writes(scenario):
    served_v2(scenario)
    before = scenario.cluster.status_writes
    scenario.when.time(600)
    assert scenario.cluster.status_writes - before <= 10
