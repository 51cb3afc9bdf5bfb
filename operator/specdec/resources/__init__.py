"""What a server consists of in the cluster: launch plan, workload, services, policies. Pure."""

from __future__ import annotations

from typing import Any

from specdec.api.v1alpha1 import SpecDecodeServer
from specdec.engine.protocol import PLAN_KEY, LaunchPlan
from specdec.resources.labels import config_map_name, metadata
from specdec.resources.network import disruption_budget, headless_service, service
from specdec.resources.preflight import preflight_job
from specdec.resources.revisions import controller_revision, revision_record
from specdec.resources.workload import stateful_set
from specdec.rollout.world import RevisionRecord, World

__all__ = [
    "controller_revision", "launch_plan_of", "manifests", "plan_config_map", "preflight_job", "revision_record",
]  # fmt: skip


def manifests(
    world: World,
    launch_plan: LaunchPlan,
    revision: RevisionRecord,
    *,
    partition: int | None = None,
) -> tuple[dict[str, Any], ...]:
    """Everything that a server consists of, in the order in which it is applied.

    The launch plan comes first, so that a new pod finds it.
    """
    server = world.server
    workload = stateful_set(
        server,
        revision,
        launch_plan,
        image=str(revision.data.get("image") or world.settings.default_image),
        standing=world.workload,
        partition=partition,
    )
    return (
        plan_config_map(server, launch_plan),
        headless_service(server),
        service(server),
        disruption_budget(server),
        workload,
    )


def plan_config_map(server: SpecDecodeServer, plan: LaunchPlan) -> dict[str, Any]:
    """ConfigMap that carries the launch plan into the pods."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata(server, config_map_name(server.name)),
        "data": {PLAN_KEY: plan.model_dump_json(by_alias=True, indent=2)},
    }


def launch_plan_of(config_map: dict[str, Any]) -> LaunchPlan:
    """Read the launch plan back from its ConfigMap."""
    return LaunchPlan.model_validate_json(config_map["data"][PLAN_KEY])
