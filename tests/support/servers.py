"""Servers for tests on the real cluster: manifests, and what their pods say."""

from __future__ import annotations

import json
from typing import Any

from tests.support.kubectl import KubectlError, apply, get, items, kubectl, wait_condition
from tests.support.merge import merged

Object = dict[str, Any]


def server(namespace: str, drafter: str, version: str, /, *, name: str = "kimi", **spec: Any) -> Object:
    """Build a server of the tiny target with one of the tiny drafters; `spec` is merged over the defaults."""
    default = {
        "target": {"model": "pvc://models/kimi"},
        "drafter": {"model": f"pvc://models/{drafter}", "version": version},
        "acceptance": {"minAcceptLength": "2.2", "maxRegression": "0.5"},
        "rollout": {"minSoakSeconds": 3, "confirmWithinSeconds": 60},
        "engine": {
            "contextLength": 512,
            "maxRunningRequests": 8,
            "maxTotalTokens": 8192,
            "drainTimeoutSeconds": 2,
            "resources": {"requests": {"cpu": "500m", "memory": "3Gi"}, "limits": {"nvidia.com/gpu": "1"}},
        },
    }
    return {
        "apiVersion": "specdec.dev/v1alpha1",
        "kind": "SpecDecodeServer",
        "metadata": {"name": name, "namespace": namespace},
        "spec": merged(default, spec),
    }


def apply_server(manifest: Object, *args: str) -> str:
    """`kubectl apply` of a server."""
    return apply(json.dumps(manifest), *args)


def refused(manifest: Object) -> str:
    """Apply a manifest that admission must refuse, and return its sentence."""
    try:
        apply_server(manifest, "--dry-run=server")
    except KubectlError as error:
        return str(error)
    raise AssertionError(f"the API server took {json.dumps(manifest['spec'])}")


def claim(namespace: str, *, name: str = "models", folder: str = "demo", mode: str = "ReadOnlyMany") -> None:
    """Make a claim of a models folder of the kind node."""
    volume = f"{namespace}-{name}"
    common = {"accessModes": [mode], "storageClassName": ""}
    kubectl("delete", "pv", volume, "--ignore-not-found", "--wait=true")
    apply(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "List",
                "items": [
                    {
                        "apiVersion": "v1",
                        "kind": "PersistentVolume",
                        "metadata": {"name": volume},
                        "spec": {
                            **common,
                            "capacity": {"storage": "1Gi"},
                            "hostPath": {"path": f"/specdec-models/{folder}", "type": "Directory"},
                            "claimRef": {"namespace": namespace, "name": name},
                        },
                    },
                    {
                        "apiVersion": "v1",
                        "kind": "PersistentVolumeClaim",
                        "metadata": {"name": name, "namespace": namespace},
                        "spec": {
                            **common,
                            "volumeName": volume,
                            "resources": {"requests": {"storage": "1Gi"}},
                        },
                    },
                ],
            }
        )
    )


def engine_pods(namespace: str, name: str = "kimi") -> list[Object]:
    """Fetch a server's engine pods."""
    return items("pods", namespace, f"app.kubernetes.io/component=engine,specdec.dev/server={name}")


def agent(namespace: str, pod: str = "kimi-0") -> Object:
    """What a pod's agent says, through the API server's proxy; empty while it does not answer."""
    try:
        text = kubectl("get", "--raw", f"/api/v1/namespaces/{namespace}/pods/{pod}:8701/proxy/status")
    except KubectlError:
        return {}
    found: Object = json.loads(text)
    return found


def candidate(namespace: str, state: str) -> Object | None:
    """Return the agent's candidate once it is in a state."""
    found: Object = agent(namespace).get("candidate") or {}
    return found if found.get("state") == state else None


def restarts(namespace: str, pod: str = "kimi-0") -> int:
    """How often the pod's container was restarted."""
    statuses = get("pod", pod, namespace)["status"].get("containerStatuses", [])
    return sum(int(s["restartCount"]) for s in statuses)


def wait_current(namespace: str, name: str = "kimi", seconds: float = 240) -> Object:
    """Wait until the server serves the drafter of its spec."""
    return wait_condition(name, namespace, "DrafterCurrent", "True", seconds)


def exec_in(namespace: str, pod: str, *args: str) -> str:
    """Run a command in a pod's engine container."""
    return kubectl("exec", "-n", namespace, pod, "-c", "engine", "--", *args)


def is_ready(pod: dict[str, Any]) -> bool:
    """Whether a pod gets users' requests."""
    conditions = {item["type"]: item["status"] for item in pod["status"].get("conditions", ())}
    return conditions.get("Ready") == "True" and "deletionTimestamp" not in pod["metadata"]
