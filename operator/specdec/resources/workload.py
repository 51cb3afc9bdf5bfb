"""The StatefulSet: stable pods that come back on the revision they had."""

from __future__ import annotations

from typing import Any

from specdec.api.v1alpha1 import Engine, SpecDecodeServer
from specdec.engine.protocol import LaunchPlan
from specdec.resources.labels import RESTART_HASH, headless_name, labels, metadata, selector, user_labels
from specdec.resources.pod import pod_spec
from specdec.resources.volumes import mounted_claims
from specdec.rollout.revisions import restart_hash
from specdec.rollout.world import RevisionRecord


def stateful_set(
    server: SpecDecodeServer,
    revision: RevisionRecord,
    plan: LaunchPlan,
    *,
    image: str,
    standing: dict[str, Any] | None,
    partition: int | None = None,
) -> dict[str, Any]:
    """Workload of a server.

    `partition` is the number of replicas at rest: a pod that is deleted returns on the revision it had, and
    a changed template waits until the planner lowers it.
    """
    replicas = replicas_of(server)
    template = _standing_template(standing, restart_hash(revision.data)) or _template(
        server, revision, plan, image
    )
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": metadata(server, server.name),
        "spec": {
            "replicas": replicas,
            "serviceName": headless_name(server.name),
            "podManagementPolicy": "Parallel",
            "updateStrategy": {
                "type": "RollingUpdate",
                "rollingUpdate": {"partition": replicas if partition is None else partition},
            },
            "selector": {"matchLabels": selector(server)},
            "template": template,
        },
    }


def replicas_of(server: SpecDecodeServer) -> int:
    """Engine pods that are wanted; 1 where nobody said."""
    return 1 if server.spec.replicas is None else server.spec.replicas


def _template(
    server: SpecDecodeServer, revision: RevisionRecord, plan: LaunchPlan, image: str
) -> dict[str, Any]:
    made_from = {RESTART_HASH: restart_hash(revision.data)}
    meant = _as_in(revision, server)
    return {
        "metadata": {"labels": {**user_labels(meant), **labels(meant), **made_from}},
        "spec": pod_spec(meant, image, mounted_claims(revision, plan)),
    }


def _as_in(revision: RevisionRecord, server: SpecDecodeServer) -> SpecDecodeServer:
    """Take the engine's inputs from the revision: the spec may ask for others by now, which are not to be served."""
    engine = Engine.model_validate(revision.data["engine"])
    return server.model_copy(update={"spec": server.spec.model_copy(update={"engine": engine})})


def _standing_template(standing: dict[str, Any] | None, made_from: str) -> dict[str, Any] | None:
    """Template in the cluster, if it was made from the same inputs: a newer operator restarts nobody's engines."""
    if standing is None:
        return None
    template: dict[str, Any] = standing["spec"]["template"]
    same = template.get("metadata", {}).get("labels", {}).get(RESTART_HASH) == made_from
    return template if same else None
