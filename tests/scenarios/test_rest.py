"""A plan that wants to look again late has foreseen that till then time alone changes nothing."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import HealthCheck, given, settings
from tests.scenarios.test_invariants import ACTS, begun, stories
from tests.support.scenario_cluster import FakeCluster

from specdec.controller.status import essence, rendered
from specdec.rollout.plan import LONGEST_REST_SECONDS, REST_PASS_SECONDS, plan
from specdec.rollout.world import Plan


def planned(cluster: FakeCluster, after: float) -> Plan:
    """What would be planned so much later, with all agents heard and nothing new said."""
    judge, now = copy.copy(cluster.judge), cluster.now
    cluster.now += after
    try:
        world = cluster.world
        return plan(world, judge.evidence(world, cluster.now), cluster.now)
    finally:
        cluster.now = now


def decided(made: Plan) -> tuple[Any, ...]:
    return made.objects, made.commands, made.deletions, made.events, essence(rendered(made.status))


def records(made: Plan) -> list[dict[str, Any]]:
    """What is not carried out yet, by an operator that is away or between two passes: it will bring news itself."""
    return [item for item in made.objects if item["kind"] == "ControllerRevision"]


@settings(deadline=None, max_examples=6, derandomize=True, suppress_health_check=list(HealthCheck))
@given(story=stories)
def test_nothing_but_news_changes_a_plan_before_it_is_looked_at_again(story):
    scenario = begun(2)
    for act, seconds in story:
        ACTS[act](scenario)
        for _ in range(seconds):
            scenario.when.time(1)
            now = planned(scenario.cluster, 0)
            if now.requeue_after <= REST_PASS_SECONDS or records(now):
                continue
            for share in (0.5, 0.99):
                assert decided(planned(scenario.cluster, share * now.requeue_after)) == decided(now)


def test_a_server_that_serves_and_has_no_traffic_is_left_alone_for_long():
    scenario = begun(2)
    scenario.when.traffic(0).time(120)
    scenario.then.condition("Ready", "True")
    assert planned(scenario.cluster, 0).requeue_after == LONGEST_REST_SECONDS


def test_a_missing_claim_is_looked_for_often():
    scenario = begun(1)
    scenario.cluster.claims.clear()
    assert planned(scenario.cluster, 0).requeue_after <= REST_PASS_SECONDS
