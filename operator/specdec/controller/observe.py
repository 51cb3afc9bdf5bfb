"""One server's world, as the planner sees it, out of the watches' memory and the agents' last words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from specdec.api.base import GROUP
from specdec.api.v1alpha1 import SpecDecodeServer
from specdec.controller.clock import parse
from specdec.controller.kinds import CONFIG_MAP, CONTROLLER_REVISION, JOB, POD, STATEFUL_SET
from specdec.controller.kube import KubeError
from specdec.controller.store import Key, Store
from specdec.engine.protocol import LaunchPlan, Phase, PreflightResult, Status
from specdec.resources import launch_plan_of, revision_record
from specdec.resources.labels import RESTART_HASH, REVISION, config_map_name
from specdec.rollout.revisions import claims
from specdec.rollout.world import ClaimView, PodView, PreflightJob, RevisionRecord, Settings, World

REQUEST = f"{GROUP}/request"
"""Annotation with a one-shot verb: VERB@REVISION@NONCE."""

MESSAGE_LENGTH = 1024
"""Foreign sentences end up in conditions: a very long one must not make the status invalid."""

FIRST_SYNC_SECONDS = 30.0
"""The kubelet writes a new pod's first conditions well within this time."""

Manifest = dict[str, Any]


class UnreadableError(KubeError):
    """A server holds what no CRD of ours allows."""


@dataclass(frozen=True)
class Heard:
    """What an agent said, and when."""

    status: Status
    at: float


def named_claims(server: SpecDecodeServer) -> tuple[str, ...]:
    """Claims that must be there for a pod to start."""
    cache = server.spec.engine.cache_claim
    return tuple(sorted({*claims(server), *([cache] if cache else [])}))


def observed(key: Key, store: Store) -> SpecDecodeServer:
    """Read the server itself; the caller has made sure that it exists.

    Raises
    ------
    UnreadableError
        It holds what no CRD of ours allows.
    """
    manifest = store.server(key)
    if manifest is None:
        raise LookupError(f"there is no server {'/'.join(key)}")
    try:
        return SpecDecodeServer.model_validate(manifest)
    except ValidationError as error:
        # It was stored under a laxer CRD. Its values stay out of the log: they may be anything.
        found = "; ".join(
            f"{'.'.join(map(str, item['loc']))} is not what the CRD allows: {item['msg']}"
            for item in error.errors(include_input=False, include_url=False)
        )
        raise UnreadableError(f"nothing is done: {found}"[:MESSAGE_LENGTH]) from None


def world(
    server: SpecDecodeServer,
    store: Store,
    *,
    settings: Settings,
    heard: Mapping[str, Heard],
    claim_views: tuple[ClaimView, ...],
    told: tuple[RevisionRecord, ...] | None = None,
) -> World:
    """Everything that is known of a server."""
    key, uid = (server.namespace, server.name), str(server.metadata["uid"])
    workload = _owned(store.get(STATEFUL_SET, *key), uid)
    return World(
        server=server,
        settings=settings,
        pods=_pods(store, key, workload, heard),
        claims=claim_views,
        revisions=tuple(
            revision_record(item) for item in store.children(CONTROLLER_REVISION, key) if _owned(item, uid)
        ),
        launch_plan=_launch_plan(_owned(store.get(CONFIG_MAP, key[0], config_map_name(server.name)), uid)),
        workload=workload,
        preflights=tuple(
            _preflight(item, store.children(POD, key))
            for item in store.children(JOB, key)
            if _owned(item, uid)
        ),
        request=server.metadata.get("annotations", {}).get(REQUEST, ""),
        told=told,
    )


def _owned(manifest: Manifest | None, uid: str) -> Manifest | None:
    """Leave out what belongs to an earlier object of the same name."""
    if manifest is None:
        return None
    owners = manifest["metadata"].get("ownerReferences", ())
    return manifest if any(owner["uid"] == uid for owner in owners) else None


def _launch_plan(manifest: Manifest | None) -> LaunchPlan | None:
    if manifest is None:
        return None
    try:
        return launch_plan_of(manifest)
    except (ValidationError, KeyError):
        return None  # broken by someone's hand: the next apply mends it


def _pods(
    store: Store, key: Key, workload: Manifest | None, heard: Mapping[str, Heard]
) -> tuple[PodView, ...]:
    if workload is None:
        return ()
    uid = workload["metadata"]["uid"]
    mine = [pod for pod in store.children(POD, key) if _owned(pod, uid)]
    return tuple(pod_view(pod, heard.get(pod["metadata"]["uid"])) for pod in mine)


def _preflight(job: Manifest, pods: list[Manifest]) -> PreflightJob:
    """One preflight's Job with the newest of its pods."""
    metadata, status = job["metadata"], job.get("status", {})
    mine = [pod for pod in pods if _owned(pod, metadata["uid"])]
    newest = max(mine, key=lambda pod: str(pod["metadata"]["creationTimestamp"]), default=None)
    given_up = [
        one for one in status.get("conditions", ()) if one["type"] == "Failed" and one["status"] == "True"
    ]
    failed = next((f"{one.get('reason', '')}: {one.get('message', '')}" for one in given_up), "")
    return PreflightJob(
        name=metadata["name"],
        revision=metadata.get("labels", {}).get(REVISION, ""),
        created=parse(metadata["creationTimestamp"]) or 0.0,
        result=next((result for pod in mine if (result := _last_words(pod)) is not None), None),
        failed=failed[:MESSAGE_LENGTH],
        pod=pod_view(newest, None) if newest else None,
    )


def _last_words(pod: Manifest) -> PreflightResult | None:
    """What a preflight's container left as its termination message."""
    for container in pod.get("status", {}).get("containerStatuses", ()):
        said = container.get("state", {}).get("terminated", {}).get("message", "")
        try:
            return PreflightResult.model_validate_json(said)
        except ValidationError:
            continue  # it ended before it had judged: the Job tries again
    return None


def pod_view(pod: Manifest, heard: Heard | None) -> PodView:
    """One pod, as kubelet, scheduler and agent see it."""
    metadata, status = pod["metadata"], pod.get("status", {})
    conditions = {item["type"]: item for item in status.get("conditions", ())}
    scheduled = conditions.get("PodScheduled", {})
    ready = conditions.get("Ready", {}).get("status") == "True"
    container: Manifest = next(iter(status.get("containerStatuses", ())), {})
    waiting = container.get("state", {}).get("waiting", {})
    deleting_since = parse(metadata.get("deletionTimestamp"))
    return PodView(
        name=metadata["name"],
        uid=metadata["uid"],
        created=parse(metadata["creationTimestamp"]) or 0.0,
        ready=ready and deleting_since is None,
        deleting=deleting_since is not None,
        deleting_since=deleting_since,
        restart_hash=metadata.get("labels", {}).get(RESTART_HASH, ""),
        unschedulable=scheduled.get("message", "")[:MESSAGE_LENGTH]
        if scheduled.get("status") == "False"
        else "",
        waiting_reason=waiting.get("reason", ""),
        waiting_message=waiting.get("message", "")[:MESSAGE_LENGTH],
        restarts=int(container.get("restartCount", 0)),
        was_ready=ready or _served(heard) or _lost_readiness(conditions),
        status=heard.status if heard else None,
        heard_at=heard.at if heard else None,
    )


def _served(heard: Heard | None) -> bool:
    return heard is not None and heard.status.phase in (Phase.SERVING, Phase.DRAINING)


def _lost_readiness(conditions: Mapping[str, Manifest]) -> bool:
    """Say whether a pod that is not ready once was: readiness changed long after the kubelet took the pod."""
    taken = parse(conditions.get("PodScheduled", {}).get("lastTransitionTime"))
    changed = parse(conditions.get("Ready", {}).get("lastTransitionTime"))
    return taken is not None and changed is not None and changed - taken > FIRST_SYNC_SECONDS
