"""Bad input that only the cluster can show, each rule one function: a reason and a sentence, never a crash."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import chain

from specdec.acceptance.judge import Floor
from specdec.api.conditions import ConditionType, Reason, find
from specdec.api.preflight import PreflightMode
from specdec.engine.protocol import NOT_THERE, CandidateState, Phase, PreflightResult
from specdec.preflight.report import expanded
from specdec.rollout.revisions import content, name
from specdec.rollout.world import PodView, PreflightJob, World

WRITTEN_BY_MANY = {"ReadWriteMany"}
SHARED = {"ReadOnlyMany", *WRITTEN_BY_MANY}
MISSING = NOT_THERE | {"DrafterNotFound", "TargetNotFound"}
"""Reasons of the agent for a folder, or a file in it, that isn't there."""
UNJUDGED = MISSING | {"NotReadable"}
"""Codes of a preflight that could not see the files: the same drafter is judged again."""
TRIED_AGAIN = {Reason.PREFLIGHT_NOT_RUN, Reason.DRAFTER_NOT_FOUND, Reason.TARGET_NOT_FOUND}
"""Findings of a preflight's Job after which another one is made."""
PULLS = {"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"}
STARTS = {"CreateContainerConfigError", "CreateContainerError", "RunContainerError"}


@dataclass(frozen=True)
class Finding:
    """What keeps a server from what its spec says, until a person acts."""

    reason: Reason
    message: str
    blocks: bool = False
    """Nothing is created or changed while it stands."""


Check = Callable[[World], Iterator[Finding]]


SCHEDULING_SECONDS = 30.0
"""A pod that no node took so soon is no finding: Kubernetes binds claims every 15 s, and nodes are being freed."""


def findings(world: World, now: float) -> tuple[Finding, ...]:
    """Run all checks; the first finding is the one that the conditions show."""
    pods = tuple(
        pod if now - pod.created >= SCHEDULING_SECONDS else replace(pod, unschedulable="")
        for pod in world.pods
    )
    jobs = tuple(
        replace(job, pod=replace(job.pod, unschedulable=""))
        if job.pod and now - job.pod.created < SCHEDULING_SECONDS
        else job
        for job in world.preflights
    )
    seen = replace(world, pods=pods, preflights=jobs)
    return tuple(chain.from_iterable(check(seen) for check in CHECKS))


def image_not_allowed(world: World) -> Iterator[Finding]:
    """Find an image outside the prefixes of the operator's settings."""
    image, default = world.server.spec.engine.image, world.settings.default_image
    prefixes = world.settings.image_prefixes
    if image and image != default and not any(_within(image, prefix) for prefix in prefixes):
        others = f" and images that begin with {' or '.join(prefixes)}" if prefixes else " alone"
        message = f"engine.image is {image}, allowed is {default}{others}"
        yield Finding(Reason.IMAGE_NOT_ALLOWED, message, blocks=True)


def claim_not_found(world: World) -> Iterator[Finding]:
    """Find a claim that doesn't exist."""
    for claim in world.claims:
        if not claim.exists:
            message = f"there is no PersistentVolumeClaim {claim.name} in namespace {world.server.namespace}: create it or name another"
            yield Finding(Reason.CLAIM_NOT_FOUND, message, blocks=True)


def claim_access_mode(world: World) -> Iterator[Finding]:
    """Find claims that more than one pod can't share, and a cache that can't be written."""
    replicas = world.server.spec.replicas or 1
    cache = world.server.spec.engine.cache_claim
    for claim in world.claims:
        modes = set(claim.access_modes)
        if not claim.exists or not modes:
            continue
        if replicas > 1 and not modes & (WRITTEN_BY_MANY if claim.name == cache else SHARED):
            needed = "ReadWriteMany" if claim.name == cache else "ReadOnlyMany or ReadWriteMany"
            message = f"replicas is {replicas}, but claim {claim.name} has {', '.join(sorted(modes))}: more than one replica needs {needed}"
            yield Finding(Reason.CLAIM_ACCESS_MODE, message, blocks=True)
        elif claim.name == cache and modes <= {"ReadOnlyMany"}:
            message = f"engine.cacheClaim {claim.name} has ReadOnlyMany: engines write to it, so it needs ReadWriteOnce or ReadWriteMany"
            yield Finding(Reason.CLAIM_ACCESS_MODE, message, blocks=True)


def floor_impossible(world: World) -> Iterator[Finding]:
    """Find a floor that no drafter can reach, where admission did not."""
    steps = world.server.spec.num_steps
    if message := Floor.of(world.server.spec.acceptance, steps).impossible(steps):
        yield Finding(Reason.FLOOR_IMPOSSIBLE, message, blocks=True)


def pinned_revision_not_found(world: World) -> Iterator[Finding]:
    """Find a pin to a revision that isn't there."""
    pinned = world.server.spec.rollout.pinned_revision
    if pinned and all(record.name != pinned for record in world.revisions):
        yield Finding(
            Reason.REVISION_NOT_FOUND,
            f"rollout.pinnedRevision is {pinned}, which is no revision of this server",
        )


def image_pull_failed(world: World) -> Iterator[Finding]:
    """Find pods whose image the kubelet can't pull."""
    for pod in _current(world):
        if pod.waiting_reason in PULLS:
            yield Finding(Reason.IMAGE_PULL_FAILED, _waiting(pod))


def container_not_started(world: World) -> Iterator[Finding]:
    """Find pods whose container the kubelet can't start."""
    for pod in _current(world):
        if pod.waiting_reason in STARTS:
            yield Finding(Reason.CONTAINER_NOT_STARTED, _waiting(pod))


def unschedulable(world: World) -> Iterator[Finding]:
    """Find pods that no node takes."""
    for pod in _current(world):
        if pod.unschedulable:
            yield Finding(Reason.UNSCHEDULABLE, f"{pod.name}: {pod.unschedulable}")


def model_not_found(world: World) -> Iterator[Finding]:
    """Find a folder that isn't in its claim: the agent says so while it starts or stages."""
    wanted = name(world.server, content(world.server, world.settings))
    for pod in _current(world):
        status = pod.status
        if status is None:
            continue
        if (
            status.reason in MISSING
            and status.phase is Phase.FAILED
            and _of_target(world, status.reason, status.message)
        ):
            yield Finding(Reason.TARGET_NOT_FOUND, f"{pod.name}: {status.message}")
        elif status.reason in MISSING:
            yield Finding(Reason.DRAFTER_NOT_FOUND, f"{pod.name}: {status.message}")
        candidate = status.candidate
        asked_for = candidate is not None and candidate.revision == wanted
        if (
            candidate
            and asked_for
            and candidate.state is CandidateState.REFUSED
            and candidate.reason in MISSING
        ):
            yield Finding(Reason.DRAFTER_NOT_FOUND, f"{pod.name}: {candidate.message}")


def preflight_not_run(world: World) -> Iterator[Finding]:
    """Find a preflight's Job that can't run, or that saw no files to judge."""
    wanted = name(world.server, content(world.server, world.settings))
    if world.server.spec.preflight.mode is PreflightMode.OFF:
        return
    mine = [job for job in world.preflights if job.revision == wanted]
    job = max(mine, key=lambda job: job.created, default=None)
    if job is not None and job.result is not None:
        yield from _files_not_seen(job.result)
    elif job is not None and (found := _not_run(job)):
        yield found
    elif job is not None or world.launch_plan is None:
        yield from _said_before(world)


def _not_run(job: PreflightJob) -> Finding | None:
    """Say why a Job has no answer; None while it may still come."""
    pod = job.pod
    if job.failed:
        advice = "see its events, or set preflight.mode to Off"
        message = f"Job {job.name} ended without an answer: {job.failed}; {advice}"
        return Finding(Reason.PREFLIGHT_NOT_RUN, message)
    if pod is not None and pod.unschedulable:
        return Finding(Reason.UNSCHEDULABLE, f"{pod.name}: {pod.unschedulable}")
    if pod is not None and pod.waiting_reason in PULLS | STARTS:
        pulls = pod.waiting_reason in PULLS
        return Finding(Reason.IMAGE_PULL_FAILED if pulls else Reason.CONTAINER_NOT_STARTED, _waiting(pod))
    return None


def _said_before(world: World) -> Iterator[Finding]:
    """Let stand what the Job before found, until the one that takes its place has an answer."""
    before = find(world.server.status.conditions, ConditionType.STALLED)
    same_spec = before is not None and before.observed_generation == world.server.generation
    if before is not None and same_spec and before.status == "True" and before.reason in TRIED_AGAIN:
        yield Finding(Reason(before.reason), before.message)


def _files_not_seen(result: PreflightResult) -> Iterator[Finding]:
    try:
        found = expanded(result.report).findings
    except ValueError as error:
        yield Finding(Reason.PREFLIGHT_NOT_RUN, f"the preflight's answer is not understood: {error}")
        return
    for one in found:
        if one.code == Reason.TARGET_NOT_FOUND:
            yield Finding(Reason.TARGET_NOT_FOUND, one.sentence)
        elif one.code in UNJUDGED:
            yield Finding(Reason.DRAFTER_NOT_FOUND, one.sentence)


def engine_failed(world: World) -> Iterator[Finding]:
    """Find engines whose start failed for another reason."""
    for pod in _current(world):
        status = pod.status
        if status and status.phase is Phase.FAILED and status.reason not in MISSING:
            yield Finding(Reason.ENGINE_FAILED, f"{pod.name}: {status.reason}: {status.message}")
        elif pod.waiting_reason == "CrashLoopBackOff":
            yield Finding(Reason.ENGINE_FAILED, f"{_waiting(pod)} (restarted {pod.restarts} times)")


CHECKS: tuple[Check, ...] = (
    image_not_allowed,
    claim_not_found,
    claim_access_mode,
    floor_impossible,
    pinned_revision_not_found,
    image_pull_failed,
    container_not_started,
    model_not_found,
    preflight_not_run,
    engine_failed,
    unschedulable,
)


def _within(image: str, prefix: str) -> bool:
    """Whether a prefix ends at a border of the image's name: reg/a allows reg/a/b, not reg/a-evil."""
    if not prefix or not image.startswith(prefix) or ".." in image:
        return False
    rest = image.removeprefix(prefix)
    return prefix[-1] in "/:@" or not rest or rest[0] in "/:@"


def _current(world: World) -> Iterator[PodView]:
    return (pod for pod in world.pods if not pod.deleting)


def _waiting(pod: PodView) -> str:
    return f"{pod.name}: {pod.waiting_reason}: {pod.waiting_message or 'no message'}"


def _of_target(world: World, reason: str, message: str) -> bool:
    """Whether what is missing is the target: its path is named, or the reason says it."""
    target = world.launch_plan.target_path if world.launch_plan else ""
    return reason == Reason.TARGET_NOT_FOUND or bool(target and target in message)
