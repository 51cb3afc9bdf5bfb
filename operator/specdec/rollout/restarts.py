"""Restarts: which pods may be replaced now. Never two at once, and never the last that serves for no need."""

from __future__ import annotations

from specdec.api.conditions import Reason
from specdec.engine.protocol import Drafting, LaunchPlan, Phase
from specdec.rollout.clock import seconds
from specdec.rollout.quarantine import rejected
from specdec.rollout.revisions import restart_hash
from specdec.rollout.scene import SILENT_SECONDS, Scene, ordinal
from specdec.rollout.world import PodView, RevisionRecord

LOST_SECONDS = 300.0
"""A pod that should have ended this long ago, with a silent agent, is on a lost node."""


def partition(scene: Scene, record: RevisionRecord) -> int:
    """Lowest ordinal that the StatefulSet may bring to its newest template.

    The number of replicas at rest, so that a deleted pod returns on what it had. With a changed template it
    goes down from the highest ordinal, one pod at a time, each once those above it are ready.
    """
    replicas = scene.spec.replicas if scene.spec.replicas is not None else 1
    pods = [pod for pod in scene.world.pods if ordinal(pod.name) < replicas]
    old = [pod for pod in pods if outdated(pod, record)]
    if not old:
        return replicas if _completed(scene) else 0
    # A pod on its way out or gone must come back on the newest template: raising the partition before it
    # is replaced would bring the old one back, to be deleted again, for ever.
    leaving = [ordinal(pod.name) for pod in old if pod.deleting or never_ready(pod)]
    leaving += set(range(replicas)) - {ordinal(pod.name) for pod in pods}
    new = [ordinal(pod.name) for pod in pods if not outdated(pod, record)]
    if _calm(pods, replicas):
        return max(ordinal(pod.name) for pod in old)
    return min([*leaving, *new], default=replicas)


def deletions(scene: Scene, plan: LaunchPlan, record: RevisionRecord) -> tuple[dict[str, str], ...]:
    """Pods to delete: those that never were ready with old inputs, those on lost nodes, and one that must restart."""
    pods = scene.world.pods
    forced = [_deletion(pod, grace="0") for pod in pods if lost(scene, pod)]
    stuck = [
        _deletion(pod)
        for pod in pods
        if not pod.deleting and never_ready(pod) and (outdated(pod, record) or _failed_before(pod, plan))
    ]
    if forced or stuck or not scene.enforcing:
        return (*forced, *stuck)
    due = [pod for pod in pods if must_restart(pod, plan, record)]
    replicas = scene.spec.replicas if scene.spec.replicas is not None else 1
    if due and _calm(pods, replicas) and not any(outdated(pod, record) for pod in pods):
        return (_deletion(max(due, key=lambda pod: ordinal(pod.name))),)
    return ()


def outdated(pod: PodView, record: RevisionRecord) -> bool:
    """Whether a pod was made from other inputs than the revision's."""
    return bool(pod.restart_hash) and pod.restart_hash != restart_hash(record.data)


def never_ready(pod: PodView) -> bool:
    """Whether a pod has served nobody yet."""
    return not pod.ready and not pod.was_ready and not pod.deleting


def lost(scene: Scene, pod: PodView) -> bool:
    """Whether a pod that should have ended hangs on a lost node."""
    if not pod.deleting or pod.deleting_since is None:
        return False
    silent = pod.heard_at is None or float(scene.now) - pod.heard_at > max(SILENT_SECONDS, LOST_SECONDS)
    return silent and scene.now - pod.deleting_since > LOST_SECONDS


def must_restart(pod: PodView, plan: LaunchPlan, record: RevisionRecord) -> bool:
    """Whether an engine can only get to the launch plan by a restart: with a drafter, without, or with this one."""
    status = pod.status
    if status is None or status.phase is not Phase.SERVING or not _older(pod, plan):
        return False
    if plan.drafter is None and status.max_steps > 0:
        return True
    if plan.drafter is not None and status.max_steps == 0:
        return plan.drafting is Drafting.ON and not rejected(record)
    return record.reason == Reason.NEEDS_RESTART and status.revision != plan.revision


def _failed_before(pod: PodView, plan: LaunchPlan) -> bool:
    """Whether a start failed with an earlier plan."""
    return pod.status is not None and pod.status.phase is Phase.FAILED and _older(pod, plan)


def _older(pod: PodView, plan: LaunchPlan) -> bool:
    """Whether a pod was surely there before the plan: Kubernetes cuts its birth down to the second."""
    return pod.created + 1.0 <= (seconds(plan.written_at) or 0.0)


def _calm(pods: tuple[PodView, ...] | list[PodView], replicas: int) -> bool:
    """Whether all wanted pods are there and ready: only then one may go."""
    return len(pods) >= replicas and all(pod.ready and not pod.deleting for pod in pods)


def _completed(scene: Scene) -> bool:
    """Whether the StatefulSet counts its newest template as the current one."""
    status = (scene.world.workload or {}).get("status", {})
    return bool(status.get("currentRevision") == status.get("updateRevision"))


def _deletion(pod: PodView, grace: str = "") -> dict[str, str]:
    order = {"kind": "Pod", "name": pod.name, "uid": pod.uid}
    return order | ({"graceSeconds": grace} if grace else {})
