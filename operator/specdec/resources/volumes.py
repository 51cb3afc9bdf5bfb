"""What an engine pod mounts: the plan, the models (read-only), and the few places where it may write."""

from __future__ import annotations

import re
from typing import Any

from specdec.api.v1alpha1 import Engine
from specdec.engine.protocol import LaunchPlan
from specdec.rollout.revisions import MODELS
from specdec.rollout.world import RevisionRecord

PLAN = "/etc/specdec"
PROMPTS = "/etc/specdec-prompts"
STATE = "/var/lib/specdec"
RUN = "/run/specdec"
_CLAIM = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
CACHE = "/cache"
"""HOME and compile caches: a claim or an emptyDir."""


def mounted_claims(revision: RevisionRecord, plan: LaunchPlan) -> tuple[str, ...]:
    """Claims that the pod mounts: the revision's, and those that the launch plan starts from."""
    return _checked({*claims_of(plan), *revision.data.get("claims", ())})


def claims_of(plan: LaunchPlan) -> tuple[str, ...]:
    """Claims that hold a plan's target and drafter."""
    paths = [plan.target_path, *([plan.drafter.path] if plan.drafter else [])]
    return _checked({path.removeprefix(f"{MODELS}/").partition("/")[0] for path in paths})


def _checked(claims: set[str]) -> tuple[str, ...]:
    names = sorted(claims)
    for name in names:
        # A claim's name becomes a part of a path: admission checks it, and so does whoever builds from it.
        if not _CLAIM.fullmatch(name):
            raise ValueError(f"{name[:63]!r} is no name of a claim")
    return tuple(names)


def volumes(engine: Engine, config_map: str, claims: tuple[str, ...]) -> list[dict[str, Any]]:
    """Volumes of the pod."""
    cache: dict[str, Any] = (
        {"persistentVolumeClaim": {"claimName": engine.cache_claim}}
        if engine.cache_claim
        else {"emptyDir": {}}
    )
    return [
        {"name": "plan", "configMap": {"name": config_map, "defaultMode": 0o444}},
        *_prompts(engine),
        *model_volumes(claims),
        {"name": "state", "emptyDir": {}},
        {"name": "run", "emptyDir": {}},
        {"name": "cache", **cache},
        {"name": "tmp", "emptyDir": {}},
        {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": engine.shared_memory}},
    ]


def _prompts(engine: Engine) -> list[dict[str, Any]]:
    if engine.warmup_prompts is None:
        return []
    # A missing one must not keep a pod from starting: the agent has prompts of its own, and says so.
    named = {"name": engine.warmup_prompts, "defaultMode": 0o444, "optional": True}
    return [{"name": "prompts", "configMap": named}]


def model_volumes(claims: tuple[str, ...]) -> list[dict[str, Any]]:
    """Volumes of the models."""
    # readOnly in the volume, not only in the mount: the kubelet then changes no owner below it.
    return [
        {
            "name": f"model-{number}",
            "persistentVolumeClaim": {"claimName": claim, "readOnly": True},
        }
        for number, claim in enumerate(claims)
    ]


def model_mounts(claims: tuple[str, ...]) -> list[dict[str, Any]]:
    """Mounts of the models, where the agent looks for them."""
    return [
        {"name": f"model-{number}", "mountPath": f"{MODELS}/{claim}", "readOnly": True}
        for number, claim in enumerate(claims)
    ]


def mounts(engine: Engine, claims: tuple[str, ...]) -> list[dict[str, Any]]:
    """Mounts of the engine container."""
    prompts = [{"name": "prompts", "mountPath": PROMPTS, "readOnly": True}] if engine.warmup_prompts else []
    writable = {"state": STATE, "run": RUN, "cache": CACHE, "tmp": "/tmp", "shm": "/dev/shm"}  # noqa: S108 - the container's own
    return [
        {"name": "plan", "mountPath": PLAN, "readOnly": True},
        *prompts,
        *model_mounts(claims),
        *({"name": name, "mountPath": path} for name, path in writable.items()),
    ]
