"""The loop with the real planner and judge: what a first apply makes, and that a restart makes nothing."""

import asyncio

import pytest
from tests.support.controllerparts import KEY, Parts, server

from specdec.controller.judging import LedgerJudge
from specdec.rollout.plan import plan

pytestmark = pytest.mark.looptime

CLAIM = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": "models", "namespace": "serving"},
    "spec": {"accessModes": ["ReadOnlyMany"]},
    "status": {"phase": "Bound"},
}


async def run_for(parts: Parts, seconds: float) -> None:
    loop = parts.loop()
    loop.judge = LedgerJudge(KEY)
    task = asyncio.create_task(loop.run())
    await asyncio.sleep(seconds)
    task.cancel()


async def test_a_first_apply_makes_everything_once_and_a_restart_makes_nothing():
    parts = Parts(plan)
    parts.add(server())
    parts.kube.add(CLAIM)
    await run_for(parts, 60)
    kinds = [kind for _, kind, _ in parts.kube.writes]
    made = ["ConfigMap", "Service", "Service", "PodDisruptionBudget", "StatefulSet"]
    assert kinds[:6] == ["ControllerRevision", *made]
    assert set(kinds[6:]) <= {"SpecDecodeServer/status", "Event"}
    parts.kube.writes.clear()
    await run_for(parts, 60)
    assert parts.kube.writes == []


async def test_a_missing_claim_is_noticed_when_it_appears():
    parts = Parts(plan)
    parts.add(server())
    await run_for(parts, 10)
    conditions = parts.kube.objects["SpecDecodeServer", *KEY]["status"]["conditions"]
    (stalled,) = [item for item in conditions if item["type"] == "Stalled"]
    assert (stalled["status"], stalled["reason"]) == ("True", "ClaimNotFound")
    assert ("StatefulSet", *KEY) not in parts.kube.objects
    parts.kube.add(CLAIM)
    await run_for(parts, 60)
    assert ("StatefulSet", *KEY) in parts.kube.objects
