"""What the scenarios' own sentences must not pass over."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from tests.support import scenario_cluster
from tests.support.scenario import Scenario

from specdec.engine.protocol import Swap
from specdec.rollout.plan import plan
from specdec.rollout.world import Plan


@pytest.fixture
def served(scenario: Scenario) -> Scenario:
    scenario.given.drafters(v1=0.8, v2=0.8).server("v1", floor="2.2").traffic(1)
    scenario.when.time(60)
    return scenario


def test_where_there_is_no_pod_nothing_serves(scenario: Scenario):
    with pytest.raises(AssertionError):
        scenario.then.serves("v1")
    scenario.then.serves("v1", pods=0)


def test_what_a_pod_was_told_is_counted_though_it_is_gone(served: Scenario):
    served.when.drafter("v2").time(30)
    served.when.spec(replicas=0).time(10)
    assert not served.cluster.pods
    served.then.swaps("v2", 1)
    assert len(served.then.told(Swap)) == 1


@pytest.mark.parametrize("kind", ["ConfigMap", "StatefulSet", "ControllerRevision"])
def test_who_writes_an_object_anew_in_every_pass_is_not_quiet(served: Scenario, kind: str, monkeypatch):
    served.then.quiet()
    (standing,) = [item for (of, _), item in served.cluster.applied.items() if of == kind]
    monkeypatch.setattr(scenario_cluster, "plan", restless(standing))
    with pytest.raises(AssertionError, match=kind):
        served.then.quiet()


def restless(standing: dict[str, Any]) -> Callable[..., Plan]:
    """Make plans that change an object with every pass."""

    def made(world: Any, evidence: Any, now: float) -> Plan:
        found = plan(world, evidence, now)
        metadata = {**standing["metadata"], "annotations": {"at": str(now)}}
        others = tuple(item for item in found.objects if item["kind"] != standing["kind"])
        return replace(found, objects=(*others, {**standing, "metadata": metadata}))

    return made
