"""The engine pod: one container that runs the agent, in restricted pod security."""

from __future__ import annotations

from typing import Any

from specdec.api.v1alpha1 import Engine, Scheduling, SpecDecodeServer
from specdec.engine.protocol import AGENT_PORT, ENGINE_PORT
from specdec.resources.labels import config_map_name, selector
from specdec.resources.volumes import CACHE, mounts, volumes

USER = 10001
"""User and group of the engine's processes."""

LINGER_SECONDS = 5
"""A pod that ends goes on accepting for so long: the Service's endpoints lag behind."""
STOP_SECONDS = 20
"""What SGLang's process group takes to stop (12 s seen), with a margin."""


POD_SECURITY = {
    "runAsNonRoot": True,
    "runAsUser": USER,
    "runAsGroup": USER,
    "seccompProfile": {"type": "RuntimeDefault"},
}
CONTAINER_SECURITY = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "readOnlyRootFilesystem": True,
}
"""Both: what the restricted pod security standard asks for, and a root file system that nobody writes."""


def pod_spec(server: SpecDecodeServer, image: str, claims: tuple[str, ...]) -> dict[str, Any]:
    """Spec of the StatefulSet's pods."""
    engine = server.spec.engine
    return {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": LINGER_SECONDS + engine.drain_timeout_seconds + STOP_SECONDS,
        "securityContext": _pod_security(engine),
        "containers": [_container(engine, image, claims)],
        "volumes": volumes(engine, config_map_name(server.name), claims),
        **pull_secrets(engine),
        **scheduling(server, engine.scheduling),
    }


def pull_secrets(engine: Engine) -> dict[str, Any]:
    """Field of a pod's spec that names its pull secrets; none without any."""
    names = [{"name": name} for name in engine.image_pull_secrets]
    return {"imagePullSecrets": names} if names else {}


def _pod_security(engine: Engine) -> dict[str, Any]:
    context: dict[str, Any] = dict(POD_SECURITY)
    if engine.cache_claim:
        # A fresh claim belongs to root. The models' claims are mounted read-only: the kubelet leaves them alone.
        context |= {"fsGroup": USER, "fsGroupChangePolicy": "OnRootMismatch"}
    return context


def _container(engine: Engine, image: str, claims: tuple[str, ...]) -> dict[str, Any]:
    return {
        "name": "engine",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "env": _environment(),
        "ports": [
            {"name": "http", "containerPort": ENGINE_PORT, "protocol": "TCP"},
            {"name": "agent", "containerPort": AGENT_PORT, "protocol": "TCP"},
        ],
        # The agent writes the message; where it was killed itself, its log's end stands in.
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "resources": _resources(engine),
        # /live fails only when the agent is beyond help: how long a start may take is the agent's to judge.
        "startupProbe": _probe("/live", period=2, failures=60),
        "livenessProbe": _probe("/live", period=10, failures=3),
        "readinessProbe": _probe("/ready", period=2, failures=2),
        "securityContext": CONTAINER_SECURITY,
        "volumeMounts": mounts(engine, claims),
    }


def _environment() -> list[dict[str, Any]]:
    from_pod = {"POD_NAME": "metadata.name", "POD_NAMESPACE": "metadata.namespace", "POD_UID": "metadata.uid"}
    plain = {
        "HOME": CACHE,
        "XDG_CACHE_HOME": f"{CACHE}/.cache",
        "TORCHINDUCTOR_CACHE_DIR": f"{CACHE}/inductor",
        "TRITON_CACHE_DIR": f"{CACHE}/triton",
    }
    fields = [
        {"name": name, "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": path}}}
        for name, path in from_pod.items()
    ]
    return fields + [{"name": name, "value": value} for name, value in plain.items()]


def _resources(engine: Engine) -> dict[str, Any]:
    named = {"requests": dict(engine.resources.requests), "limits": dict(engine.resources.limits)}
    return {kind: amounts for kind, amounts in named.items() if amounts}


def _probe(path: str, *, period: int, failures: int) -> dict[str, Any]:
    return {
        "httpGet": {"path": path, "port": "agent", "scheme": "HTTP"},
        "periodSeconds": period,
        "timeoutSeconds": 5,
        "successThreshold": 1,
        "failureThreshold": failures,
    }


def scheduling(server: SpecDecodeServer, wish: Scheduling) -> dict[str, Any]:
    """Fields of a pod's spec that say where it may run."""
    spread = {
        "maxSkew": 1,
        "topologyKey": wish.spread_over,
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": selector(server)},
    }
    fields: dict[str, Any] = {
        "nodeSelector": dict(wish.node_selector),
        "tolerations": [
            toleration.model_dump(by_alias=True, exclude_none=True) for toleration in wish.tolerations
        ],
        "topologySpreadConstraints": [spread] if wish.spread_over else [],
        "priorityClassName": wish.priority_class_name,
        "runtimeClassName": wish.runtime_class_name,
    }
    return {name: value for name, value in fields.items() if value}
