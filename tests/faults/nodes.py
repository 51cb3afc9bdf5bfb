"""What Kubernetes' own controllers and the kubelet do with a StatefulSet: make pods, replace them, show readiness."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tests.faults.engines import EnginePod
from tests.support.scenario_agent import FakeAgent

from specdec.controller.kinds import CONFIG_MAP, POD, STATEFUL_SET
from specdec.engine.protocol import LaunchPlan, Phase
from specdec.resources import launch_plan_of
from specdec.resources.labels import RESTART_HASH, config_map_name
from specdec.rollout.clock import text
from specdec.rollout.restarts import ordinal

if TYPE_CHECKING:
    from tests.faults.world import World

Manifest = dict[str, Any]


def turn(world: World) -> None:
    """Let controllers and kubelets act once."""
    for workload in world.server.of(STATEFUL_SET):
        _end_pods(world)
        _replace(world, workload)
        _make(world, workload)
        _count(world, workload)
    _show(world)


def plan_of(world: World, namespace: str, name: str) -> LaunchPlan | None:
    """Launch plan that is mounted into a server's pods."""
    config_map = world.server.get(CONFIG_MAP, namespace, config_map_name(name))
    return launch_plan_of(config_map) if config_map else None


def _end_pods(world: World) -> None:
    """Take away the pods that were told to end."""
    for pod in world.server.of(POD):
        if "deletionTimestamp" in pod["metadata"]:
            _remove(world, pod)


def _remove(world: World, pod: Manifest) -> None:
    metadata = pod["metadata"]
    world.server.remove(("Pod", metadata["namespace"], metadata["name"]))
    world.engines.pop(metadata["uid"], None)


def _hash(template: Manifest) -> str:
    return str(template["metadata"]["labels"][RESTART_HASH])


def _pods(world: World, workload: Manifest) -> dict[int, Manifest]:
    uid = workload["metadata"]["uid"]
    mine = [pod for pod in world.server.of(POD) if pod["metadata"]["ownerReferences"][0]["uid"] == uid]
    return {ordinal(pod["metadata"]["name"]): pod for pod in mine}


def _templates(workload: Manifest) -> tuple[Manifest, Manifest, int]:
    """Templates that pods below and from the partition are made from, and the partition."""
    spec = workload["spec"]
    newest = spec["template"]
    current = json.loads(workload.get("status", {}).get("template", "null")) or newest
    return current, newest, spec["updateStrategy"]["rollingUpdate"]["partition"]


def _replace(world: World, workload: Manifest) -> None:
    """Take away what is too many, and one outdated pod that the partition does not hold, once all are ready."""
    pods, replicas = _pods(world, workload), workload["spec"]["replicas"]
    for number in [number for number in pods if number >= replicas]:
        _remove(world, pods.pop(number))
    _, newest, partition = _templates(workload)
    if len(pods) < replicas or not all(_ready(world, pod) for pod in pods.values()):
        return
    for number in sorted(pods, reverse=True):
        if number >= partition and _hash(pods[number]) != _hash(newest):
            _remove(world, pods[number])
            return


def _make(world: World, workload: Manifest) -> None:
    pods, metadata = _pods(world, workload), workload["metadata"]
    plan = plan_of(world, metadata["namespace"], metadata["name"])
    if plan is None:
        return  # the kubelet waits for the ConfigMap
    current, newest, partition = _templates(workload)
    for number in set(range(workload["spec"]["replicas"])) - set(pods):
        template = newest if number >= partition else current
        world.pods_made += 1
        world.templates.append(template)
        name = f"{metadata['name']}-{number}"
        pod = world.server.put(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {
                    "name": name,
                    "namespace": metadata["namespace"],
                    "labels": template["metadata"]["labels"],
                    "ownerReferences": [
                        {"uid": metadata["uid"], "kind": "StatefulSet", "name": metadata["name"]}
                    ],
                },
                "spec": template["spec"],
                "status": {"podIP": f"10.0.{world.pods_made // 250}.{world.pods_made % 250 + 1}"},
            }
        )
        uid = pod["metadata"]["uid"]
        # Off is slow here, so that its restarts are among what faults happen to.
        agent = FakeAgent(uid, plan, world.models, world.server.now, world.rng, plain=False)
        address = pod["status"]["podIP"]
        world.engines[uid] = EnginePod(name, uid, address, agent, _hash(template))


def _count(world: World, workload: Manifest) -> None:
    """Show which template counts as the current one: the newest, once every pod has it."""
    current, newest, _ = _templates(workload)
    pods = _pods(world, workload).values()
    if all(_hash(pod) == _hash(newest) for pod in pods):
        current = newest
    status = {
        "currentRevision": _hash(current),
        "updateRevision": _hash(newest),
        "template": json.dumps(current),
    }
    if workload.get("status") != status:
        live = world.server.get(STATEFUL_SET, workload["metadata"]["namespace"], workload["metadata"]["name"])
        assert live is not None
        world.server.put({**live, "status": status})


def _ready(world: World, pod: Manifest) -> bool:
    engine = world.engines.get(pod["metadata"]["uid"])
    return engine is not None and engine.agent.phase is Phase.SERVING


def _show(world: World) -> None:
    """Write each pod's readiness where it changed."""
    now = text(world.server.now)
    for pod in world.server.of(POD):
        ready = "True" if _ready(world, pod) else "False"
        shown = {item["type"]: item for item in pod["status"].get("conditions", ())}
        if shown.get("Ready", {}).get("status") == ready:
            continue
        taken = shown.get("PodScheduled") or {
            "type": "PodScheduled",
            "status": "True",
            "lastTransitionTime": now,
        }
        conditions = [taken, {"type": "Ready", "status": ready, "lastTransitionTime": now}]
        world.server.put({**pod, "status": {**pod["status"], "conditions": conditions}})
