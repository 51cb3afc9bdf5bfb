"""Applying what a server consists of: upon the version that was seen, once, and never against somebody else."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from tests.support.controllerparts import KEY, Parts, calm, child, server

from specdec.controller import apply
from specdec.controller.apply import CONTENDED_SECONDS
from specdec.controller.kube import ConflictError
from specdec.controller.loop import Planner
from specdec.controller.noop import unchanged
from specdec.engine.protocol import PLAN_KEY, LaunchPlan
from specdec.resources import plan_config_map
from specdec.rollout.world import Evidence, Plan, World

pytestmark = pytest.mark.looptime


async def test_an_apply_holds_only_upon_the_version_that_was_seen():
    def wishing(note: str) -> Planner:
        def planner(world: World, evidence: Evidence, now: float) -> Plan:
            return replace(calm(world, evidence, now), objects=({**child(world), "spec": {"note": note}},))

        return planner

    parts = Parts(wishing("1"))
    parts.add(server())
    await parts.loop()._pass()
    made = parts.kube.objects["Service", "serving", "demo-extra"]
    parts.kube.add({**made, "spec": {"note": "somebody else's, of which no watch has told yet"}})
    parts.planner = wishing("2")
    with pytest.raises(ConflictError):
        await parts.loop()._pass()


async def test_a_second_operator_that_signs_for_the_same_server_is_named_and_not_fought():
    def signed(world: World, evidence: Evidence, now: float) -> Plan:
        return replace(calm(world, evidence, now), objects=(plan_config_map(world.server, launched("ours")),))

    def launched(key: str) -> LaunchPlan:
        fields = {"assignment": 1, "server": "serving/demo", "revision": "r1", "num_steps": 3}
        return LaunchPlan(**fields, target_path="/models/t", served_name="demo", public_keys=(key,))

    parts = Parts(signed)
    parts.add(server())
    loop = parts.loop()
    await loop._pass()
    config_map = parts.kube.objects["ConfigMap", "serving", "demo-engine"]
    parts.add({**config_map, "data": {PLAN_KEY: launched("another's").model_dump_json(by_alias=True)}})
    parts.kube.writes.clear()
    await loop._pass()
    assert parts.kube.writes == [("patch", "SpecDecodeServer/status", "demo")]
    (told,) = parts.kube.objects["SpecDecodeServer", *KEY]["status"]["conditions"]
    assert (told["reason"], told["message"].partition(":")[0]) == (
        "ApplyFailed",
        "another operator writes ConfigMap demo-engine with a key of its own",
    )
    await asyncio.sleep(CONTENDED_SECONDS)
    await loop._pass()
    assert "ours" in parts.kube.objects["ConfigMap", "serving", "demo-engine"]["data"][PLAN_KEY]


async def test_what_stands_is_not_compared_again_until_somebody_changes_it(monkeypatch):
    compared: list[str] = []

    def counting(live: Any, wanted: Any) -> bool:
        compared.append(wanted["metadata"]["name"])
        return unchanged(live, wanted)

    monkeypatch.setattr(apply, "unchanged", counting)
    parts = Parts(calm)
    parts.add(server())
    loop = parts.loop()
    for _ in range(3):
        await loop._pass()
    assert compared == []  # it was made by the first pass, and is as it was made
    made = parts.kube.objects["Service", "serving", "demo-extra"]
    parts.add({**made, "spec": {"note": "another"}})
    await loop._pass()
    assert compared == ["demo-extra"]
    assert parts.kube.objects["Service", "serving", "demo-extra"]["spec"] == {"note": "1"}


async def test_a_change_that_comes_while_the_rest_is_applied_is_seen_by_the_next_pass():
    def two(world: World, evidence: Evidence, now: float) -> Plan:
        second = child(world)
        second["metadata"]["name"] = "demo-last"
        return replace(calm(world, evidence, now), objects=(child(world), second))

    parts = Parts(two)
    parts.add(server())
    loop, apply_really = parts.loop(), parts.kube.apply

    async def changed_meanwhile(manifest: Any, subresource: str = "") -> Any:
        answer = await apply_really(manifest, subresource)
        if manifest["metadata"]["name"] == "demo-last":
            first = parts.kube.objects["Service", "serving", "demo-extra"]
            parts.add({**first, "spec": {"note": "another"}})
        return answer

    parts.kube.apply = changed_meanwhile  # type: ignore[method-assign]
    await loop._pass()
    await loop._pass()
    assert parts.kube.objects["Service", "serving", "demo-extra"]["spec"] == {"note": "1"}
