"""The client of the demo as a pod, and its records."""

from __future__ import annotations

import json
import subprocess
import threading
from pathlib import Path
from typing import Any

from tests.support.kubectl import apply, command, kubectl, wait_for

SCRIPT = Path(__file__).with_name("client.py")
RATE = 1.5
"""Requests a second."""
OPERATOR_IMAGE = "localhost/specdec-operator:dev"


def manifests(namespace: str, server: str, rate: float, tokens: int, name: str) -> str:
    """ConfigMap with the script, and the pod that runs it under the restricted pod security."""
    args = [
        "/client/client.py",
        f"--url=http://{server}:30000",
        f"--agents={server}-engines",
        f"--model={server}",
        f"--rate={rate}",
        f"--tokens={tokens}",
    ]
    script = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace},
        "data": {"client.py": SCRIPT.read_text()},
    }
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 30,
            "automountServiceAccountToken": False,
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": 10001,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [
                {
                    "name": "client",
                    "image": OPERATOR_IMAGE,
                    "imagePullPolicy": "Never",
                    "command": ["python", "-u", *args],
                    "securityContext": {
                        "allowPrivilegeEscalation": False,
                        "capabilities": {"drop": ["ALL"]},
                        "readOnlyRootFilesystem": True,
                    },
                    "volumeMounts": [{"name": "client", "mountPath": "/client", "readOnly": True}],
                    "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}},
                }
            ],
            "volumes": [{"name": "client", "configMap": {"name": name}}],
        },
    }
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": [script, pod]})


def start_client(
    namespace: str, server: str, rate: float = RATE, tokens: int = 12, *, name: str = "client"
) -> None:
    """Start the client's pod and wait until it runs."""
    kubectl("delete", "pod", name, "-n", namespace, "--ignore-not-found")
    apply(manifests(namespace, server, rate, tokens, name))
    kubectl("wait", "--for=condition=Ready", f"pod/{name}", "-n", namespace, "--timeout=60s", seconds=70)


class Traffic:
    """A running client; its records grow while it runs."""

    def __init__(self, namespace: str, server: str, rate: float = RATE) -> None:
        self.namespace = namespace
        self.records: list[dict[str, Any]] = []
        self._ended = False
        start_client(namespace, server, rate)
        self._logs = subprocess.Popen(
            command("logs", "-f", "client", "-n", namespace), stdout=subprocess.PIPE, text=True
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        for line in self._logs.stdout or ():
            if line.startswith("{"):
                self.records.append(json.loads(line))

    def requests(self) -> list[dict[str, Any]]:
        """Requests that have ended, in order of their start."""
        return sorted((r for r in list(self.records) if r["kind"] == "request"), key=lambda r: r["start"])

    def statuses(self) -> list[dict[str, Any]]:
        """What the agents said, in order."""
        return [r for r in list(self.records) if r["kind"] == "status"]

    def wait_requests(self, count: int, since: float, seconds: float = 120) -> list[dict[str, Any]]:
        """Wait for so many requests that started after a time, and return exactly those."""

        def look() -> list[dict[str, Any]] | None:
            fresh = [r for r in self.requests() if r["start"] > since]
            return fresh[:count] if len(fresh) >= count else None

        found: list[dict[str, Any]] = wait_for(f"{count} requests of the client", seconds, look)
        return found

    def stop(self) -> dict[str, Any]:
        """End the client after its requests in flight, and return its last record; once it has ended, only that."""
        if not self._ended:
            self._end()
        ends = [r for r in self.records if r["kind"] == "end"]
        if not ends:
            raise RuntimeError("the client ended without its closing record: its pod was killed")
        return ends[-1]

    def _end(self) -> None:
        self._ended = True
        kubectl("delete", "pod", "client", "-n", self.namespace, "--grace-period=30", seconds=60)
        self._reader.join(timeout=30)
        self._logs.terminate()
        self._logs.wait(timeout=10)
        if self._logs.stdout:
            self._logs.stdout.close()
