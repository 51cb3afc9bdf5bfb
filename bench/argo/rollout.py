"""What Argo Rollouts is given: Services, an analysis of the accept length, and a Rollout of stock SGLang engines."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from tests.support.engine import PROFILE, STEPS

IMAGE = "localhost/specdec-engine-cpu:dev"
NAME, PREVIEW = "engine", "engine-preview"
FLOOR = 2.2
"""Lowest accept length: the floor that our operator is given, too."""
PORT = 30000
Manifest = dict[str, Any]


@dataclass(frozen=True)
class Analysis:
    """One setting of the analysis, in seconds."""

    name: str
    interval: int
    count: int
    failure_limit: int
    """It aborts at the failure after these."""
    delay: int
    window: int


FAST = Analysis("fast", interval=10, count=4, failure_limit=1, delay=10, window=30)
STANDARD = Analysis("std", interval=30, count=5, failure_limit=3, delay=30, window=60)


@dataclass(frozen=True)
class Setting:
    """How a new version is brought in."""

    name: str
    analysis: Analysis
    preview: bool = False
    """Blue-green: analysed on requests of its own before any user's, at the price of a second set."""


SETTINGS = (
    Setting("canary, std", STANDARD),
    Setting("canary, fast", FAST),
    Setting("blueGreen with probes, fast", FAST, preview=True),
)


def services(namespace: str) -> list[Manifest]:
    """Where users ask, and where a preview is probed."""
    spec = {"selector": {"app": NAME}, "ports": [{"port": PORT, "targetPort": PORT}]}
    return [_object("v1", "Service", namespace, name, spec) for name in (NAME, PREVIEW)]


def analysis(namespace: str, setting: Analysis, prometheus: str) -> Manifest:
    """Build the template, which asks the Prometheus at an address: tokens over verify calls of the pods with a hash, in a window."""
    # The name has a colon or an underscore, depending on what the scraper and the engine agreed on.
    query = " / ".join(
        f'sum(increase({{__name__=~"sglang[:_]{name}_total",hash="{{{{args.hash}}}}"}}[{setting.window}s]))'
        for name in ("generation_tokens", "spec_verify_calls")
    )
    metric = {
        "name": "accept-length",
        "interval": f"{setting.interval}s",
        "count": setting.count,
        "failureLimit": setting.failure_limit,
        "initialDelay": f"{setting.delay}s",
        "failureCondition": f"result[0] < {FLOOR}",
        "provider": {"prometheus": {"address": f"http://{prometheus}", "query": query}},
    }
    spec = {"args": [{"name": "hash"}], "metrics": [metric]}
    return _object("argoproj.io/v1alpha1", "AnalysisTemplate", namespace, setting.name, spec)


def rollout(namespace: str, setting: Setting, drafter: str) -> Manifest:
    """Two engines with a drafter, and how the next one replaces it."""
    hashed = [{"name": "hash", "valueFrom": {"podTemplateHashValue": "Latest"}}]
    analysed = {"templates": [{"templateName": setting.analysis.name}], "args": hashed}
    canary = {"maxSurge": 1, "maxUnavailable": 0, "steps": [{"setWeight": 50}, {"analysis": analysed}]}
    blue_green = {
        "activeService": NAME,
        "previewService": PREVIEW,
        "previewReplicaCount": 1,
        "abortScaleDownDelaySeconds": 1,
        "prePromotionAnalysis": analysed,
    }
    spec = {
        "replicas": 2,
        "revisionHistoryLimit": 2,
        "progressDeadlineSeconds": 600,
        "selector": {"matchLabels": {"app": NAME}},
        "strategy": {"blueGreen": blue_green} if setting.preview else {"canary": canary},
        "template": {"metadata": {"labels": {"app": NAME}}, "spec": _pod(drafter)},
    }
    return _object("argoproj.io/v1alpha1", "Rollout", namespace, NAME, spec)


def _pod(drafter: str) -> Manifest:
    profile = json.loads(PROFILE.read_text())
    mounts = {"models": "/models", "tmp": "/tmp", "shm": "/dev/shm"}  # noqa: S108 - in a pod of its own
    health = {"path": "/health", "port": PORT}
    container = {
        "name": "engine",
        "image": IMAGE,
        "imagePullPolicy": "Never",
        "command": ["python", "-m", "sglang.launch_server", *profile["args"], *_arguments(drafter)],
        # SGLang loads the plugins that are named; none has this name.
        "env": [{"name": name, "value": value} for name, value in (profile["env"] | {"SGLANG_PLUGINS": "none", "HOME": "/tmp"}).items()],  # noqa: S108
        "ports": [{"containerPort": PORT, "name": "http"}],
        "startupProbe": {"httpGet": health, "periodSeconds": 1, "timeoutSeconds": 5, "failureThreshold": 180},
        "readinessProbe": {"httpGet": health, "periodSeconds": 5, "timeoutSeconds": 10},
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}, "readOnlyRootFilesystem": True},
        "volumeMounts": [{"name": name, "mountPath": path} for name, path in mounts.items()],
        "resources": {"requests": {"cpu": "100m", "memory": "2Gi"}, "limits": {"nvidia.com/gpu": "1"}},
    }  # fmt: skip
    return {
        "terminationGracePeriodSeconds": 30,
        "automountServiceAccountToken": False,
        "securityContext": {"runAsNonRoot": True, "runAsUser": 10001, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [container],
        "volumes": [
            {"name": "models", "persistentVolumeClaim": {"claimName": "models", "readOnly": True}},
            {"name": "tmp", "emptyDir": {}},
            {"name": "shm", "emptyDir": {"medium": "Memory"}},
        ],
    }  # fmt: skip


def _arguments(drafter: str) -> list[str]:
    return [
        *("--model-path", "/models/kimi", "--served-model-name", NAME, "--host", "0.0.0.0", "--port", str(PORT)),  # noqa: S104
        *("--context-length", "512", "--max-total-tokens", "8192", "--max-running-requests", "8"),
        *("--mem-fraction-static", "0.5", "--enable-metrics", "--skip-server-warmup", "--decode-log-interval", "1"),
        *("--speculative-algorithm", "EAGLE3", "--speculative-draft-model-path", f"/models/{drafter}"),
        *("--speculative-draft-model-quantization", "unquant", "--speculative-num-steps", str(STEPS)),
        *("--speculative-eagle-topk", "1", "--speculative-num-draft-tokens", str(STEPS + 1)),
    ]  # fmt: skip


def _object(version: str, kind: str, namespace: str, name: str, spec: Manifest) -> Manifest:
    return {
        "apiVersion": version,
        "kind": kind,
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec,
    }
