"""The loop with the real planner and judge: what a first apply makes, and that a restart makes nothing."""

import asyncio
from typing import Any

import pytest
from tests.support.controllerparts import KEY, Parts, server

from specdec.controller.judging import LedgerJudge
from specdec.engine.protocol import LaunchPlan, PreflightResult
from specdec.preflight.report import Report
from specdec.rollout.plan import plan

pytestmark = pytest.mark.looptime

CLAIM = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": "models", "namespace": "serving"},
    "spec": {"accessModes": ["ReadOnlyMany"]},
    "status": {"phase": "Bound"},
}


def ended_pod(parts: Parts) -> dict[str, Any]:
    """The pod of the preflight's Job, which found nothing."""
    (job,) = [item for item in parts.kube.objects.values() if item["kind"] == "Job"]
    (container,) = job["spec"]["template"]["spec"]["containers"]
    (text,) = [item["value"] for item in container["env"] if item["name"] == "SPECDEC_PLAN"]
    order = LaunchPlan.model_validate_json(text)
    report = Report("", "", "0.5.23").compact()
    result = PreflightResult(
        revision=order.revision, settings=order.preflight.settings, at="2026-01-01T00:00:00Z", report=report
    )
    said = {"terminated": {"message": result.model_dump_json(by_alias=True)}}
    owner = {"uid": job["metadata"]["uid"], "kind": "Job", "name": job["metadata"]["name"]}
    labels = job["spec"]["template"]["metadata"]["labels"]
    metadata = {"name": "demo-check-x", "namespace": "serving", "labels": labels, "ownerReferences": [owner]}
    return {
        "apiVersion": "v1", "kind": "Pod", "metadata": metadata,
        "status": {"podIP": "10.0.0.9", "containerStatuses": [{"name": "preflight", "state": said}]},
    }  # fmt: skip


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
    before = [kind for _, kind, _ in parts.kube.writes]
    assert before[:2] == ["ControllerRevision", "Job"]
    assert set(before[2:]) <= {"SpecDecodeServer/status", "Event"}
    parts.kube.writes.clear()
    parts.add(ended_pod(parts))
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
    parts.add(server(preflight={"mode": "Off"}))
    await run_for(parts, 10)
    conditions = parts.kube.objects["SpecDecodeServer", *KEY]["status"]["conditions"]
    (stalled,) = [item for item in conditions if item["type"] == "Stalled"]
    assert (stalled["status"], stalled["reason"]) == ("True", "ClaimNotFound")
    assert ("StatefulSet", *KEY) not in parts.kube.objects
    parts.kube.add(CLAIM)
    await run_for(parts, 60)
    assert ("StatefulSet", *KEY) in parts.kube.objects
