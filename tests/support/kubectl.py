"""kubectl, as tests and the demo call it: the real client against the kind cluster, every wait with a deadline."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support.paths import CACHE

KUBECONFIG = CACHE / "kubeconfig"
KUBECTL = CACHE / "bin" / "kubectl"


class KubectlError(RuntimeError):
    """kubectl ended with an error; the message is what it wrote."""


def command(*args: str) -> list[str]:
    """Full command line of one kubectl call."""
    return [str(KUBECTL), f"--kubeconfig={KUBECONFIG}", *args]


def as_person() -> dict[str, str]:
    """Environment of a person at a terminal: kubectl and its plugin on the path, the cluster by its kubeconfig."""
    path = os.pathsep.join((str(Path(sys.executable).parent), str(KUBECTL.parent), os.environ["PATH"]))
    return {**os.environ, "PATH": path, "KUBECONFIG": str(KUBECONFIG)}


def kubectl(*args: str, stdin: str | None = None, seconds: float = 60) -> str:
    """Run kubectl and return what it printed.

    Raises
    ------
    KubectlError
        It ended with an error.
    """
    done = subprocess.run(
        command(*args), input=stdin, capture_output=True, text=True, timeout=seconds, check=False
    )
    if done.returncode:
        raise KubectlError(f"kubectl {' '.join(args)}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def get(kind: str, name: str, namespace: str) -> dict[str, Any]:
    """Fetch one object."""
    found: dict[str, Any] = json.loads(kubectl("get", kind, name, "-n", namespace, "-o", "json"))
    return found


def items(kind: str, namespace: str, selector: str = "") -> list[dict[str, Any]]:
    """Fetch all objects of a kind."""
    args = ["get", kind, "-n", namespace, "-o", "json"] + (["-l", selector] if selector else [])
    found: list[dict[str, Any]] = json.loads(kubectl(*args))["items"]
    return found


def apply(manifest: str, *args: str) -> str:
    """`kubectl apply` of a manifest given as text."""
    return kubectl("apply", "-f", "-", *args, stdin=manifest)


def condition(thing: dict[str, Any], kind: str) -> dict[str, Any]:
    """One condition of an object, empty while it has none or it speaks of an older generation."""
    status = thing.get("status", {})
    if status.get("observedGeneration", 0) < thing["metadata"].get("generation", 0):
        return {}
    found = [c for c in status.get("conditions", []) if c["type"] == kind]
    return found[0] if found else {}


def wait_for(what: str, seconds: float, look: Callable[[], Any]) -> Any:
    """Ask until the answer is true.

    Raises
    ------
    TimeoutError
        It did not become true in time; says what was waited for and the last answer.
    """
    deadline, last = time.monotonic() + seconds, None
    while time.monotonic() < deadline:
        last = look()
        if last:
            return last
        time.sleep(0.5)
    raise TimeoutError(f"waited {seconds:.0f} s for {what}; last seen: {last!r}")


def wait_condition(name: str, namespace: str, kind: str, status: str, seconds: float) -> dict[str, Any]:
    """Wait until a condition of a SpecDecodeServer has a status for its newest generation."""

    def look() -> dict[str, Any] | None:
        thing = get("sds", name, namespace)
        return thing if condition(thing, kind).get("status") == status else None

    try:
        found: dict[str, Any] = wait_for(f"{kind}={status} of sds/{name}", seconds, look)
    except TimeoutError as error:
        state = json.dumps(get("sds", name, namespace).get("status", {}), indent=1)
        raise TimeoutError(f"{error}\nits status: {state}") from None
    return found


def delete_namespace(namespace: str, seconds: float = 120) -> None:
    """Delete a namespace and wait until it is gone; its pods get no time to drain, since nobody uses them any more."""
    gone = ("namespace", namespace, "--ignore-not-found")
    if not kubectl("delete", *gone, "--wait=false"):
        return
    kubectl(
        "delete", "pods", "--all", "-n", namespace, "--grace-period=1", "--ignore-not-found", "--wait=false"
    )
    kubectl("delete", *gone, f"--timeout={seconds:.0f}s", seconds=seconds + 10)
