"""The operator is killed between any two of a rollout's writes and commands: the end is as if it had lived."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable

import pytest
from tests.support.scenario import Scenario
from tests.support.scenario_agent import Model

Story = Callable[[Scenario], object]

AWAY_SECONDS = 12.0
"""A restart of the operator's pod, with its lease."""

STORIES: dict[str, tuple[int, Story]] = {
    "a good drafter": (1, lambda s: s.when.drafter("v2")),
    "a bad drafter": (1, lambda s: s.when.drafter("bad")),
    "a dead drafter": (1, lambda s: s.when.drafter("dead")),
    "a refused drafter": (1, lambda s: s.when.drafter("refused")),
    "a good drafter on two engines": (2, lambda s: s.when.drafter("v2")),
    "a bad drafter on two engines": (2, lambda s: s.when.drafter("bad")),
    "other engine flags": (2, lambda s: s.when.spec(engine={"contextLength": 4096})),
    "other flags and a drafter": (
        2, lambda s: s.when.spec(engine={"contextLength": 4096}, drafter={"model": "pvc://models/drafters/v2"}),
    ),
}  # fmt: skip
POINTS, LEAST_POINTS = 12, 6
"""Points at which the operator is killed, spread evenly; a refused drafter has the fewest effects."""


@functools.cache
def begun(replicas: int) -> Scenario:
    """What every story of so many engines begins with; each goes on from a copy."""
    scenario = Scenario()
    scenario.given.drafters(v1=0.8, v2=0.8, bad=0.4, dead=0.0, refused=Model(refusal="TensorsNotConsumed"))
    scenario.given.server("v1", floor="2.2", replicas=replicas).traffic(1)
    scenario.when.time(60)
    return scenario


def end(scenario: Scenario) -> dict[str, object]:
    """What must be the same, whenever the operator was killed."""
    cluster = scenario.cluster
    assert cluster.launch_plan is not None
    assert cluster.launch_plan.drafter is not None
    return {
        "outcomes": {r.data["drafter"]["version"]: (r.outcome, r.reason) for r in cluster.revisions.values()},
        "plan": (cluster.launch_plan.drafter.version, cluster.launch_plan.arguments),
        "serving": sorted((pod.name, pod.agent.serving, pod.agent.promoted) for pod in cluster.pods.values()),
        "drafting": sorted((pod.name, pod.agent.drafting) for pod in cluster.pods.values()),
        "pods made": cluster.made,
        "conditions": [(c.type, c.status, c.reason) for c in cluster.status.conditions],
        "rollout": cluster.status.rollout,
        "active": cluster.status.active and cluster.status.active.version,
        "last good": cluster.status.last_good and cluster.status.last_good.version,
        "quarantine": [(item.version, item.reason) for item in cluster.status.quarantine],
    }


@pytest.mark.parametrize("story", STORIES)
def test_it_ends_as_if_the_operator_had_lived(story):
    replicas, act = STORIES[story]
    straight = copy.deepcopy(begun(replicas))
    before = straight.cluster.effects
    act(straight)
    straight.when.time(150)
    wanted, whole = end(straight), straight.cluster.effects - before
    assert whole >= LEAST_POINTS
    for point in sorted({whole * number // POINTS for number in range(POINTS)}):
        scenario = copy.deepcopy(begun(replicas))
        act(scenario)
        scenario.cluster.dies_after = scenario.cluster.effects + point
        while scenario.cluster.operator and scenario.cluster.now < 1_800_000_300:
            scenario.cluster.step()
        assert not scenario.cluster.operator, point
        scenario.cluster.dies_after = None
        scenario.when.time(AWAY_SECONDS).operator_back().time(150)
        assert end(scenario) == wanted, point
        assert scenario.cluster.most_down <= 1
