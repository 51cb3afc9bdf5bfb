"""The Job that judges a drafter where no engine can: the engine's image and places, but no GPU and nothing to write."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from specdec.api.v1alpha1 import SpecDecodeServer
from specdec.engine.protocol import LaunchPlan
from specdec.resources.labels import PREFLIGHT, REVISION, metadata, preflight_labels, selector, user_labels
from specdec.resources.pod import CONTAINER_SECURITY, POD_SECURITY, pull_secrets, scheduling
from specdec.resources.volumes import claims_of, model_mounts, model_volumes
from specdec.rollout.world import RevisionRecord

DEADLINE_SECONDS = 900
"""For everything, the pull of an engine image of tens of GB included; judging takes seconds."""
KEPT_SECONDS = 60
"""How long an ended Job stays: the result is in the revision's record, and a Job without one is made anew."""
RETRIES = 2
RESOURCES = {"requests": {"cpu": "50m", "memory": "256Mi"}, "limits": {"memory": "1Gi"}}

Manifest = dict[str, Any]


def preflight_job(
    server: SpecDecodeServer, record: RevisionRecord, order: LaunchPlan, image: str
) -> Manifest:
    """Job that judges a revision's drafter; its name changes with everything that the answer depends on.

    A Job's template can't be changed, so what differs is another Job.
    """
    labels = {**user_labels(server), **preflight_labels(server), REVISION: record.name}
    template = {"metadata": {"labels": labels}, "spec": _pod_spec(server, order, image)}
    made_from = json.dumps([template, record.at], sort_keys=True).encode()
    name = f"{server.name}-check-{hashlib.sha256(made_from).hexdigest()[:8]}"
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {**metadata(server, name), "labels": {**preflight_labels(server), REVISION: record.name}},
        "spec": {
            "backoffLimit": RETRIES,
            "activeDeadlineSeconds": DEADLINE_SECONDS,
            "ttlSecondsAfterFinished": KEPT_SECONDS,
            "template": template,
        },
    }


def _pod_spec(server: SpecDecodeServer, order: LaunchPlan, image: str) -> Manifest:
    engine = server.spec.engine
    placed = scheduling(server, engine.scheduling)
    placed.pop("topologySpreadConstraints", None)  # it counts engines
    claims = claims_of(order)
    return {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "restartPolicy": "Never",
        "securityContext": POD_SECURITY,
        "containers": [_container(order, image, claims)],
        "volumes": [*model_volumes(claims), {"name": "tmp", "emptyDir": {}}],
        # A claim that only one node can mount is where the engines are.
        "affinity": {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 100, "podAffinityTerm": {"topologyKey": "kubernetes.io/hostname",
                                                "labelSelector": {"matchLabels": selector(server)}}},
        ]}},
        **pull_secrets(engine),
        **placed,
    }  # fmt: skip


def _container(order: LaunchPlan, image: str, claims: tuple[str, ...]) -> Manifest:
    uid = {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.uid"}}
    return {
        "name": PREFLIGHT,
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "args": [PREFLIGHT],
        "env": [
            {"name": "POD_UID", "valueFrom": uid},
            {"name": "SPECDEC_PLAN", "value": _literal(order.model_dump_json(by_alias=True))},
            {"name": "HOME", "value": "/tmp"},  # noqa: S108 - the container's own
        ],
        "resources": RESOURCES,
        "securityContext": CONTAINER_SECURITY,
        "volumeMounts": [*model_mounts(claims), {"name": "tmp", "mountPath": "/tmp"}],  # noqa: S108
    }


def _literal(document: str) -> str:
    """JSON in which Kubernetes has nothing to expand: a container's environment refers to itself by $(NAME)."""
    return document.replace("$", "\\u0024")
