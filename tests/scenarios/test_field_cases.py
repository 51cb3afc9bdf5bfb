"""Live field cases, and what other canary analysers get wrong: each with the verdict that is right here."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.support import scenario_world as table
from tests.support.scenario import Scenario
from tests.support.scenario_agent import Model
from tests.support.scenario_world import NOW, planned, record, server, told, world

from specdec.rollout.quarantine import PROMOTED, REJECTED, SUPERSEDED


@pytest.fixture
def two(scenario: Scenario) -> Scenario:
    """Two engines served v1 for ten minutes."""
    scenario.given.drafters(v1=0.8, v2=0.8, worse=0.55, bad=0.4)
    scenario.given.server("v1", floor="1.8", replicas=2).traffic(1)
    scenario.when.time(600)
    return scenario


def collapse(scenario: Scenario, pod: str, *, times: int = 1) -> None:
    """Finish long requests on one engine of which no draft was right."""
    for _ in range(times):
        scenario.cluster.pods[pod].agent.serve(400, ease=0.0)


def silent(scenario: Scenario, *, since: float | None) -> None:
    """Let every agent fall silent, or speak again."""
    for pod in scenario.cluster.pods.values():
        pod.silent_since = since


def test_one_request_that_collapses_is_no_verdict(two):
    # A cumulative count of failed checks never forgives one; here it is one bucket of many.
    two.when.drafter("v2").time(10)
    collapse(two, "kimi-0")
    two.when.time(300)
    two.then.serves("v2").last_good("v2").no_event("RolledBack")


def test_a_request_that_collapses_now_and_then_on_the_active_hides_no_regression(two):
    two.when.drafter("worse")
    for _ in range(6):
        two.when.time(20)
        collapse(two, "kimi-1")
    two.when.time(60)
    two.then.serves("v1").event("RolledBack", "rolled back worse -> v1", times=1)


def test_an_outage_of_the_measurement_is_an_error_and_no_failure(two):
    # Flagger counts a failed query as a failed check, Argo Rollouts aborts at the fifth.
    two.when.drafter("v2").time(8)
    silent(two, since=two.cluster.now)
    two.when.time(50)
    two.then.condition("AcceptanceHealthy", "Unknown", "EnginesSilent").no_event("RolledBack")
    silent(two, since=None)
    two.when.time(200)
    two.then.serves("v2").last_good("v2").no_event("RolledBack").quiet()


def test_a_verdict_is_acted_upon_in_the_pass_that_finds_it(two):
    # Flagger looks at its count of failed checks before the check: one tick late.
    two.when.drafter("worse").time(120)
    found = next(made for made in two.cluster.plans if made.events and made.events[0].reason == "RolledBack")
    asked = [
        made
        for made in two.cluster.plans
        for order in made.commands
        if order.command.verb == "Rollback" and order.command.reason == "WorseThanActive"
    ]
    assert asked
    assert two.cluster.plans.index(asked[0]) <= two.cluster.plans.index(found)
    record = next(r for r in two.cluster.revisions.values() if r.data["drafter"]["version"] == "worse")
    assert record.reason == "WorseThanActive"
    assert record.message.startswith("accept length ")


def test_a_trial_that_is_ended_early_is_no_success(two):
    # Argo Rollouts calls an analysis that was terminated before its first measurement Successful.
    two.when.drafter("v2").time(6).drafter("v1").time(60)
    outcomes = {r.data["drafter"]["version"]: r.outcome for r in two.cluster.revisions.values()}
    assert outcomes["v2"] == SUPERSEDED
    two.then.serves("v1").last_good("v1").quiet()


def test_a_person_may_promote_what_the_comparison_would_take_back(scenario):
    scenario.given.drafters(v1=0.8, worse=0.6)
    scenario.given.server("v1", replicas=2).traffic(1)
    scenario.when.time(600).drafter("worse").time(6)
    name = next(
        r.name for r in scenario.cluster.revisions.values() if r.data["drafter"]["version"] == "worse"
    )
    scenario.when.request(f"promote@{name}@1").time(300)
    scenario.then.serves("worse").last_good("worse").no_event("RolledBack")


def test_pods_that_never_start_are_no_verdict_on_a_drafter(two):
    # O-e08: the device plugin fails, and every new pod with it.
    trouble = {"waiting_reason": "UnexpectedAdmissionError", "waiting_message": "no healthy devices present"}
    two.given.pods_in_trouble(**trouble)
    two.when.spec(replicas=4).time(30)
    two.then.serves("v1", pods=4).no_event("RolledBack").last_good("v1")
    assert not two.cluster.status.quarantine
    two.when.drafter("worse").time(120)
    two.then.event("RolledBack", "rolled back worse -> v1", times=1).swaps("worse", 1)


def test_an_engine_without_traffic_weighs_nothing(two):
    # O-d05: a rank that never had traffic reads 0.
    two.cluster.idle = {"kimi-1"}
    two.when.drafter("bad").time(60)
    two.then.serves("v1").event("RolledBack", "rolled back bad -> v1", times=1)
    two.then.condition("AcceptanceHealthy", "True")


def test_the_same_spec_again_and_its_keys_in_another_order_roll_nothing(two):
    # O-e05
    spec = two.cluster.manifest["spec"]
    two.cluster.manifest["spec"] = {key: spec[key] for key in reversed(spec)}
    two.when.spec().time(30)
    two.then.pods_made(2).swaps("v1", 0).quiet()


def test_a_value_that_engines_start_with_rolls_them_once(two):
    # O-e05: it ends in the launch plan's arguments, and the pod's template follows.
    two.cluster.most_down = 0
    two.when.spec(engine={"maxTotalTokens": 4096}).time(120)
    two.then.pods_made(4).quiet()
    assert two.cluster.most_down <= 1
    assert two.cluster.launch_plan.arguments[-2:] == ("--max-total-tokens", "4096")


def test_a_folder_whose_contents_changed_is_refused_and_the_known_ones_serve_on(two):
    # O-e06: a digest is taken once; what lies under a path may not change behind it.
    two.when.quality("v2", Model(refusal="DigestChanged")).drafter("v2").time(60)
    two.then.serves("v1").condition("DrafterCurrent", "False", "DrafterRejected").event("Refused", "v2")
    two.then.last_good("v1").pods_made(2).quiet()
    digests = {r.digest for r in two.cluster.revisions.values() if r.outcome == "Promoted"}
    assert digests == {"sha256:/models/models/drafters/v1"}


def test_too_little_shared_memory_is_the_engines_trouble_and_no_drafters(scenario):
    # O-e07
    scenario.given.drafters(v1=0.8)
    scenario.cluster.start_failure = ("SharedMemory", "raise engine.sharedMemory")
    scenario.given.server("v1", engine={"tensorParallel": 8, "sharedMemory": "64Mi"}).traffic(1)
    scenario.when.time(60)
    scenario.then.condition("Stalled", "True", "EngineFailed").condition("Ready", "False")
    assert "SharedMemory: raise engine.sharedMemory" in scenario.cluster.status.conditions[0].message
    scenario.cluster.start_failure = None
    scenario.when.spec(engine={"sharedMemory": "8Gi"}).time(60)
    scenario.then.condition("Ready", "True").last_good("v1").pods_made(2)
    volumes = scenario.cluster.workload["spec"]["template"]["spec"]["volumes"]
    assert {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "8Gi"}} in volumes


def test_a_pod_on_its_way_out_is_told_nothing_and_serves_nobody():
    # O-h02: it lingers on what was rolled back and still answers.
    v1, bad = record("v1", outcome=PROMOTED), record("bad", 2, outcome=REJECTED)
    lingers = replace(table.pod(v1, revision=bad.name), deleting=True, deleting_since=NOW - 20)
    made = planned(world(server("v1"), v1, lingers, records=(v1, bad)))
    assert told(made) == []
    ready = next(item for item in made.status.conditions if item.type == "Ready")
    assert (ready.status, made.status.ready_replicas) == ("False", 0)


def test_a_rollback_takes_users_off_the_rejected_drafter_on_the_pod_itself(two):
    # O-h02: no endpoint changes hands, so none can lag.
    two.when.drafter("bad").time(60)
    two.then.serves("v1").pods_made(2)
    agent = two.cluster.pods["kimi-0"].agent
    before = set(agent.counters.values())
    two.when.time(60)
    moved = {row.revision for row in set(agent.counters.values()) - before}
    assert moved == {agent.promoted}
