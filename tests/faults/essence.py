"""What two ends of a story must agree in: everything but times, versions, identities and measured figures."""

from __future__ import annotations

import json
from typing import Any

from tests.faults.world import KEY, World

from specdec.controller.kinds import (
    CONFIG_MAP,
    CONTROLLER_REVISION,
    DISRUPTION_BUDGET,
    POD,
    SERVICE,
    SPEC_DECODE_SERVER,
    STATEFUL_SET,
)
from specdec.resources import launch_plan_of, revision_record
from specdec.resources.labels import RESTART_HASH

Essence = dict[str, Any]


def essence(world: World) -> Essence:
    """Describe the state that a world is in."""
    found: Essence = {}
    for kind in (SERVICE, DISRUPTION_BUDGET, STATEFUL_SET):
        for item in world.server.of(kind):
            found[f"{kind.kind} {item['metadata']['name']}"] = item["spec"]
    for item in world.server.of(CONFIG_MAP):
        plan = launch_plan_of(item)
        found["launch plan"] = plan.model_dump(
            mode="json", exclude={"assignment", "written_at", "public_keys"}
        )
    for item in world.server.of(CONTROLLER_REVISION):
        record = revision_record(item)
        found[f"revision {record.name}"] = (record.outcome, record.reason, record.data)
    server = world.server.get(SPEC_DECODE_SERVER, *KEY)
    if server is not None:
        found["status"] = _status(server.get("status", {}), server["metadata"]["generation"])
    for pod in world.server.of(POD):
        engine = world.engines.get(pod["metadata"]["uid"])
        if engine is None:
            continue  # a preflight's
        agent = engine.agent
        found[f"pod {pod['metadata']['name']}"] = (
            pod["metadata"]["labels"][RESTART_HASH], agent.phase.value, agent.promoted, agent.serving,
            agent.drafting.value, agent.max_steps, agent.deadline is None,
        )  # fmt: skip
    found["pods made"] = world.pods_made
    plain: Essence = json.loads(json.dumps(found))
    return plain


def _status(status: dict[str, Any], generation: int) -> Essence:
    return {
        "conditions": sorted(
            (item["type"], item["status"], item["reason"]) for item in status.get("conditions", ())
        ),
        "observed": generation - status.get("observedGeneration", 0),
        **{name: status.get(name) for name in ("phase", "rollout", "reason", "replicas", "readyReplicas")},
        **{name: (status.get(name) or {}).get("revision") for name in ("active", "candidate", "lastGood")},
        "quarantine": sorted((item["version"], item["reason"]) for item in status.get("quarantine", ())),
        "request": status.get("lastHandledRequest"),
    }


def differences(one: Essence, other: Essence, path: str = "") -> list[str]:
    """Where two states differ, in words."""
    found = []
    for key in sorted(set(one) | set(other)):
        left, right = one.get(key), other.get(key)
        if isinstance(left, dict) and isinstance(right, dict):
            found += differences(left, right, f"{path}{key}.")
        elif left != right:
            found.append(f"{path}{key}: {left} != {right}")
    return found
