"""A world put together from lists is the one that the planner sees through watches."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.support.scenario import Scenario
from tests.support.scenario_cluster import SETTINGS
from tests.support.scenario_kube import ScenarioKube

from specdec.controller.clock import Clock
from specdec.controller.observe import observed
from specdec.controller.snapshot import heard, observed_world, snapshot
from specdec.rollout.plan import plan
from specdec.rollout.world import World

KEY = ("llm", "kimi")


@pytest.fixture
def stage() -> ScenarioKube:
    scenario = Scenario()
    scenario.given.drafters(v1=0.9, v2=0.8).server("v1", floor="2.2", replicas=2).traffic(1)
    scenario.when.time(60).drafter("v2").time(6)
    return ScenarioKube(scenario)


async def looked(stage: ScenarioKube) -> World:
    store = await snapshot(stage.kube, KEY)
    said = await heard(stage.kube, store, KEY, Clock(now=lambda: stage.scenario.cluster.now))
    return await observed_world(stage.kube, observed(KEY, store), store, said, SETTINGS)


async def test_it_has_the_same_parts(stage):
    seen, wanted = await looked(stage), stage.scenario.cluster.world
    assert [replace(pod, created=0) for pod in seen.pods] == [replace(pod, created=0) for pod in wanted.pods]
    assert {item.name: replace(item, uid="") for item in seen.revisions} == {
        item.name: replace(item, uid="") for item in wanted.revisions
    }
    assert (seen.launch_plan, seen.server.spec) == (wanted.launch_plan, wanted.server.spec)
    assert [(claim.name, claim.exists, claim.access_modes) for claim in seen.claims] == [
        (claim.name, claim.exists, claim.access_modes) for claim in wanted.claims
    ]


async def test_the_planner_decides_the_same(stage):
    cluster = stage.scenario.cluster
    seen, wanted = plan(await looked(stage), {}, cluster.now), plan(cluster.world, {}, cluster.now)
    assert seen.commands == wanted.commands
    assert seen.status.conditions == wanted.status.conditions
    assert not seen.deletions


async def test_pods_of_another_server_and_silent_agents_are_left_out(stage):
    stage.kube.served.pop(("kimi-1:8701", "status"))
    stage.kube.add(
        {
            "kind": "Pod",
            "metadata": {"name": "x-0", "namespace": "llm", "labels": {"specdec.dev/server": "x"}},
        }
    )
    seen = await looked(stage)
    assert [(pod.name, pod.status is not None) for pod in seen.pods] == [("kimi-0", True), ("kimi-1", False)]


async def test_an_answer_that_is_not_understood_is_none(stage):
    stage.kube.served["kimi-0:8701", "status"] = {"nonsense": True}
    assert next(iter((await looked(stage)).pods)).status is None
