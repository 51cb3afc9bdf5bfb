"""What Kubernetes does with a preflight's Job: one pod that says what it found in its last words, and both go later."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.support.scenario_agent import judged
from tests.support.scenario_cluster import JOB_SECONDS

from specdec.controller.kinds import JOB, POD
from specdec.engine.protocol import LaunchPlan
from specdec.rollout.clock import seconds

if TYPE_CHECKING:
    from tests.faults.world import World

Manifest = dict[str, Any]


def turn(world: World) -> None:
    """Let the Job's controller and the kubelet act once."""
    for job in world.server.of(JOB):
        name, pods = job["metadata"]["name"], _pods(world, job)
        age = world.server.now - (seconds(job["metadata"]["creationTimestamp"]) or 0.0)
        if age >= JOB_SECONDS + job["spec"]["ttlSecondsAfterFinished"]:
            for manifest in (*pods, job):
                metadata = manifest["metadata"]
                world.server.remove((manifest["kind"], metadata["namespace"], metadata["name"]))
        elif not pods:
            _start(world, job)
        elif age >= JOB_SECONDS and "containerStatuses" not in pods[0]["status"]:
            ended = {"name": name, "state": {"terminated": {"message": _last_words(world, job)}}}
            world.server.put({**pods[0], "status": {**pods[0]["status"], "containerStatuses": [ended]}})


def _pods(world: World, job: Manifest) -> list[Manifest]:
    uid = job["metadata"]["uid"]
    return [pod for pod in world.server.of(POD) if pod["metadata"]["ownerReferences"][0]["uid"] == uid]


def _start(world: World, job: Manifest) -> None:
    metadata, template = job["metadata"], job["spec"]["template"]
    world.templates.append(template)
    owner = {"uid": metadata["uid"], "kind": "Job", "name": metadata["name"]}
    head = {"name": f"{metadata['name']}-x", "namespace": metadata["namespace"], "ownerReferences": [owner]}
    head["labels"] = template["metadata"]["labels"]
    world.server.put(
        {"apiVersion": "v1", "kind": "Pod", "metadata": head, "spec": template["spec"], "status": {}}
    )


def _last_words(world: World, job: Manifest) -> str:
    (container,) = job["spec"]["template"]["spec"]["containers"]
    (text,) = [item["value"] for item in container["env"] if item["name"] == "SPECDEC_PLAN"]
    order = LaunchPlan.model_validate_json(text)
    assert order.drafter is not None
    model = world.models.get(order.drafter.path)
    return judged(order.revision, order.preflight, model, world.server.now).model_dump_json(by_alias=True)
