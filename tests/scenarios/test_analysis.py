"""What an analysis must get right, row by row of what Argo Rollouts and Flagger do otherwise, and how gauges mislead.

Rows that other files tell: a failed query is no failed check, a verdict counts in the pass that finds it, a trial
ended early is no success, a person may promote (test_field_cases); no traffic, the same bad one again, drafting off
as fallback (test_trouble); measured baseline (test_pace); Observe, and a bad one goes while a person holds the
rollout (test_people).
"""

from __future__ import annotations

import pytest
from tests.support.scenario import Scenario
from tests.support.scenario_agent import Model
from tests.support.scenario_cluster import JOB_SECONDS

from specdec.engine.protocol import Source


@pytest.fixture
def settled(scenario: Scenario) -> Scenario:
    """v1 was promoted above a floor of 2.2 and is what a rollback returns to."""
    scenario.given.drafters(v1=0.8, v2=0.8, bad=0.4, dead=0.0, all_right=1.0).server(
        "v1", floor="2.2"
    ).traffic(1)
    scenario.when.time(60)
    scenario.then.last_good("v1")
    return scenario


def served(scenario: Scenario, pod: str, *, requests: int, calls: int, ease: float = 1.0) -> None:
    """Finish some requests on one engine."""
    for _ in range(requests):
        scenario.cluster.pods[pod].agent.serve(calls, ease)


def test_a_candidate_that_is_neither_good_nor_bad_is_held_until_the_deadline_says_so(scenario):
    # Inconclusive: Argo Rollouts pauses, Flagger goes on.
    scenario.given.drafters(v1=0.8, edge=Model(quality=0.585, probe_quality=0.6))
    scenario.given.server("v1", floor="2.25", acceptance={"maxRegression": "1"}).traffic(0.1)
    scenario.when.time(120).drafter("edge").time(700)
    scenario.then.serves("edge").no_event("RolledBack").no_event("NotConfirmed").last_good("v1")
    scenario.then.condition("Stalled", "True", "ProgressDeadlineExceeded")


def test_engines_are_pooled_by_their_calls_and_not_by_their_ratios(scenario):
    # Flagger takes the last series. A mean of the two ratios would be 2.4 here, and above the floor.
    scenario.given.drafters(v1=0.8)
    scenario.given.server("v1", floor="2.2", replicas=2, acceptance={"minRequests": 10})
    scenario.when.time(10)
    for _ in range(6):
        served(scenario, "kimi-0", requests=4, calls=60, ease=0.5)
        served(scenario, "kimi-1", requests=4, calls=6)
        scenario.when.time(5)
    assert float(scenario.cluster.status.acceptance.accept_length) < 1.8
    scenario.then.condition("AcceptanceHealthy", "Unknown", "ProbeContradictsTraffic")


def test_the_agents_own_requests_are_no_evidence(scenario):
    # O-h01, O-d04: the warm-up reached VERIFY; nobody else did, and nothing is not zero.
    scenario.given.drafters(v1=0.8).server("v1", floor="2.2")
    scenario.when.time(60)
    row = next(iter(scenario.cluster.pods["kimi-0"].agent.counters.values()))
    assert (row.source, row.calls) == (Source.PROBE, 40)
    scenario.then.condition("AcceptanceHealthy", "Unknown", "NoTraffic").condition("Ready", "True")
    scenario.then.last_good(None).no_event("RolledBack")
    assert scenario.cluster.status.acceptance.accept_length == ""


def test_a_pod_is_not_served_before_it_is_warm(scenario):
    # O-h01: the first generation takes minutes of compilation.
    scenario.given.drafters(v1=0.8).server("v1").traffic(1)
    scenario.when.time(JOB_SECONDS + 2)
    scenario.then.condition("Ready", "False", "EnginesStarting")
    assert scenario.cluster.pods["kimi-0"].agent.counters == {}


def test_a_rate_is_of_what_was_drafted_and_never_above_one(settled):
    # O-d01, O-d02: SGLang's own rate reads 0.20 for a dead drafter and 1.33 for a perfect one.
    settled.when.drafter("all_right").time(60)
    shown = settled.cluster.status.acceptance
    assert (shown.accept_length, shown.accept_rate) == ("4.00", "1.00")


def test_a_dead_drafter_reads_zero(scenario):
    # O-d01: passes its probe, dies on live traffic.
    scenario.given.drafters(v1=Model(quality=0.0, probe_quality=0.8)).server("v1").traffic(1)
    scenario.when.time(30)
    shown = scenario.cluster.status.acceptance
    assert (shown.accept_length, shown.accept_rate) == ("1.00", "0.00")


def test_a_drafter_that_dies_while_it_serves_is_left_without_any_floor(scenario):
    # Hard trip, steady state: Argo Rollouts and Flagger stop looking after the promotion.
    scenario.given.drafters(v1=0.8, v2=0.8).server("v1").traffic(1)
    scenario.when.time(60).drafter("v2").time(60)
    scenario.then.last_good("v2")
    scenario.when.quality("v2", Model(0.0)).time(900)
    scenario.then.serves("v1").last_good("v1").event("RolledBack", times=1).pods_made(1)
    scenario.then.condition("DrafterCurrent", "False", "DrafterRejected").quiet()


def test_idle_engines_add_no_evidence_whatever_their_last_request_was(settled):
    # O-d03: a gauge would show 1.0 for ten minutes, sixty bad samples.
    settled.when.traffic(0).drafter("v2").time(8)
    served(settled, "kimi-0", requests=2, calls=12, ease=0.0)
    settled.when.time(600)
    settled.then.serves("v2").no_event("RolledBack").last_good("v1")
    settled.when.traffic(1).time(90)
    settled.then.last_good("v2").no_event("RolledBack")


def test_a_first_drafter_is_judged_too(scenario):
    # Argo Rollouts and Flagger skip the first deployment.
    scenario.given.drafters(bad=0.4).server("bad", floor="2.2").traffic(1)
    scenario.when.time(90)
    scenario.then.drafting("Off").condition("Ready", "True", "ServingWithoutDrafting")
    scenario.then.condition("DrafterCurrent", "False", "DrafterRejected").last_good(None)


def test_no_plan_ever_writes_a_spec(settled):
    spec = settled.cluster.server.spec.model_dump()
    settled.when.time(300).drafter("bad")
    asked = settled.cluster.server.spec.model_dump()
    settled.when.time(120)
    assert asked != spec
    assert settled.cluster.server.spec.model_dump() == asked
    kinds = {item["kind"] for made in settled.cluster.plans for item in made.objects}
    assert "SpecDecodeServer" not in kinds


def test_a_rejection_keeps_its_evidence(settled):
    settled.when.drafter("bad").time(60)
    record = next(r for r in settled.cluster.revisions.values() if r.data["drafter"]["version"] == "bad")
    assert (record.outcome, record.reason, record.engine) == ("Rejected", "BelowFloor", "sglang-0.5.23-cpu")
    assert float(record.accept_length) < 2.2
    assert record.requests >= 4
    assert record.calls >= 4 * 10
    (kept,) = settled.cluster.status.quarantine
    assert kept.message == record.message
    assert kept.message.startswith(
        f"accept length {record.accept_length} < 2.20 over {record.requests} requests"
    )


def test_a_candidate_that_looked_good_until_the_hold_is_still_taken_back_in_it(settled):
    # Flagger does not roll back while it waits for a person (#1801).
    settled.when.drafter("v2").time(4).spec(rollout={"paused": True}).time(30)
    settled.then.rollout("Paused").serves("v2")
    settled.when.quality("v2", Model(0.2, contents="v2")).time(300)
    settled.then.serves("v1").event("RolledBack", "rolled back v2 -> v1", times=1)


def test_agents_that_are_never_heard_are_unknown_and_no_fault_of_a_drafter(settled):
    # O-d07: an endpoint that is locked or missing answers nothing that counts.
    settled.when.drafter("v2").engines_silent().time(600)
    settled.then.no_event("RolledBack").condition("AcceptanceHealthy", "Unknown", "EnginesSilent")
    assert not settled.cluster.status.quarantine
