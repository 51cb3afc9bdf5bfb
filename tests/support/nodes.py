"""The kind node from outside: what no pod and no kubectl may do."""

from __future__ import annotations

import json
import os
import subprocess
from typing import Any

from tests.cluster.tooling import daemon
from tests.cluster.tooling.places import DOCKER, NODE


def on_node(*args: str) -> str:
    """Run a command on the node."""
    host = {"DOCKER_HOST": daemon.SOCKET} if daemon.is_chosen() else {}
    path = f"{DOCKER / 'usr' / 'bin'}:{os.environ['PATH']}"
    done = subprocess.run(
        ["docker", "exec", NODE, *args],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        env={**os.environ, **host, "PATH": path},
    )
    return done.stdout


def kill_container(namespace: str, pod: str, container: str) -> None:
    """Kill a container as a crash would: no signal that it could answer."""
    label = f"--label=io.kubernetes.pod.namespace={namespace}"
    found = on_node(
        "crictl", "ps", "-q", label, f"--label=io.kubernetes.pod.name={pod}", f"--name={container}"
    )
    on_node("crictl", "stop", "--timeout=0", found.split()[0])


def audit() -> list[dict[str, Any]]:
    """Every write that the API server has logged, oldest first."""
    lines = on_node("cat", "/var/log/kubernetes/audit.log").splitlines()
    return [json.loads(line) for line in lines if line.startswith("{")]
