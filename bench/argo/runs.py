"""One bad drafter rolled out under load, by Argo Rollouts and by our operator: what happened when, and to whom."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.cluster.tooling.places import NODE
from tests.demo.figures import unix
from tests.demo.traffic import Traffic, start_client
from tests.support.kubectl import KubectlError, apply, get, items, kubectl, wait_condition, wait_for
from tests.support.servers import agent, apply_server, is_ready, server

from bench.argo.rollout import NAME, PREVIEW, Setting, rollout
from bench.beside import each_second

SPLIT = 3.3
"""Accept length of one answer: the good drafter keeps every draft and gives 3.6 or more, the bad ones less than this."""
START_SECONDS = 240
END_SECONDS = 420
WARM_SECONDS = 25
"""Users are served so long before a new version comes: every window of an analysis then has data."""
REPLICAS = 2


@dataclass(frozen=True)
class Outcome:
    """What one rollout did."""

    who: str
    drafter: str
    ready: float
    """Seconds from the apply until the candidate served, or could."""
    decided: float
    """Seconds from then until it was told to go."""
    safe: float
    """Seconds from then until the last of its requests had begun, and it took no more."""
    touched: int
    """Users' requests that it served, in part or whole."""
    longest: float
    """Longest of them, seconds."""
    failed: int
    extra: int
    """Most engines at once, beyond two; each has a GPU."""
    memory: float
    """Most memory of all engines, beyond what they had before, GB."""
    least: int
    """Fewest ready engines at any time."""
    restarts: int


@dataclass
class Watch:
    """What is seen of the engines once a second."""

    namespace: str
    seen: list[tuple[float, list[dict[str, Any]], float]] = field(default_factory=list)
    """When, the pods, and their memory in GB."""

    @contextmanager
    def running(self) -> Iterator[None]:
        """Look until the end of the block."""

        def look() -> None:
            with contextlib.suppress(KubectlError):
                pods = items("pods", self.namespace, "app.kubernetes.io/name!=client")
                engines = [pod for pod in pods if _is_engine(pod)]
                self.seen.append((time.time(), engines, memory(self.namespace)))

        with each_second(look):
            yield

    def most_pods(self) -> int:
        """Most engines at once that a node had taken."""
        return max(sum("nodeName" in pod["spec"] for pod in pods) for _, pods, _ in self.seen)

    def least_ready(self) -> int:
        """Fewest ready engines."""
        return min(sum(map(is_ready, pods)) for _, pods, _ in self.seen)

    def first(self, since: float, holds: Callable[[dict[str, Any]], bool]) -> float | None:
        """When a pod was first seen so."""
        return next((at for at, pods, _ in self.seen if at > since and any(map(holds, pods))), None)

    def restarts(self) -> int:
        """Restarts of the engines' containers that are there at the end."""
        statuses = [s for pod in self.seen[-1][1] for s in pod["status"].get("containerStatuses", ())]
        return sum(int(status["restartCount"]) for status in statuses)

    def extra_memory(self, since: float) -> float:
        """Most memory, beyond the last figure before a time."""
        before = [used for at, _, used in self.seen if at <= since][-1]
        return max(used for at, _, used in self.seen if at > since) - before


def _is_engine(pod: dict[str, Any]) -> bool:
    return any(container["name"] == "engine" for container in pod["spec"]["containers"])


def memory(namespace: str) -> float:
    """Working set of a namespace's engines, GB, as the kubelet sees it."""
    summary = json.loads(kubectl("get", "--raw", f"/api/v1/nodes/{NODE}/proxy/stats/summary"))
    used = [
        pod["memory"].get("workingSetBytes", 0)
        for pod in summary["pods"]
        if pod["podRef"]["namespace"] == namespace and pod["podRef"]["name"] not in ("client", "prober")
    ]
    return float(sum(used) / 1e9)


def length(request: dict[str, Any]) -> float:
    """Accept length of one answer."""
    return float(1 + request.get("drafts", 0) / request["calls"]) if request["calls"] else 9.0


def by_argo(namespace: str, setting: Setting, drafter: str) -> Outcome:
    """Let Argo Rollouts bring a drafter in, until it is gone again."""
    settled(namespace, setting)
    stable = get("rollout", NAME, namespace)["status"]["stableRS"]
    traffic, watch = Traffic(namespace, NAME), Watch(namespace)
    if setting.preview:
        start_client(namespace, PREVIEW, 1.0, name="prober")
    with watch.running():
        time.sleep(WARM_SECONDS)
        began = time.time()
        apply(json.dumps(rollout(namespace, setting, drafter)))
        wait_for("the abort", END_SECONDS, lambda: get("rollout", NAME, namespace)["status"].get("abort"))
        decided = time.time()
        wait_for(
            "the candidate's end",
            END_SECONDS,
            lambda: not any(is_new(pod, stable) for pod in watch.seen[-1][1]),
        )
        wait_for("two stable engines", END_SECONDS, lambda: sum(map(is_ready, watch.seen[-1][1])) >= REPLICAS)
        traffic.stop()
    ready = watch.first(began, lambda pod: is_new(pod, stable) and is_ready(pod)) or decided
    return _outcome((f"Argo Rollouts, {setting.name}", drafter), watch, traffic, (began, ready, decided))


def is_new(pod: dict[str, Any], stable: str) -> bool:
    """Whether a pod has the new version."""
    return bool(pod["metadata"]["labels"].get("rollouts-pod-template-hash") != stable)


def settled(namespace: str, setting: Setting) -> None:
    """Bring the good drafter back under this setting, and wait until two engines serve it alone."""
    kubectl("delete", "pod", "prober", "-n", namespace, "--ignore-not-found", "--grace-period=1")
    apply(json.dumps(rollout(namespace, setting, "good")))

    def healthy() -> bool:
        status = get("rollout", NAME, namespace).get("status", {})
        pods = [
            pod
            for pod in items("pods", namespace, f"app={NAME}")
            if "deletionTimestamp" not in pod["metadata"]
        ]
        return status.get("phase") == "Healthy" and len(pods) == REPLICAS and all(map(is_ready, pods))

    wait_for(f"two engines for {setting.name}", START_SECONDS, healthy)


def by_us(namespace: str, drafter: str) -> Outcome:
    """Let our operator bring a drafter in, until it is gone again."""
    traffic, watch = Traffic(namespace, NAME), Watch(namespace)
    with watch.running():
        time.sleep(WARM_SECONDS)
        began = time.time()
        apply_server(ours(namespace, drafter, drafter))
        wait_condition(NAME, namespace, "Stalled", "True", 120)
        decided = time.time()
        said = [agent(namespace, f"{NAME}-{number}").get("candidate") or {} for number in range(REPLICAS)]
        (tried,) = [one for one in said if one.get("swappedAt") and (unix(one["swappedAt"]) or 0) > began]
        traffic.stop()
    moments = (began, unix(tried["swappedAt"]) or began, unix(tried["backAt"]) or decided)
    return _outcome(("ours", drafter), watch, traffic, moments)


def ours(namespace: str, drafter: str, version: str) -> dict[str, Any]:
    """Two engines with a drafter under our operator, judged by the same floor."""
    engine = {"resources": {"requests": {"cpu": "400m", "memory": "2Gi"}}}
    return server(namespace, drafter, version, name=NAME, replicas=REPLICAS, engine=engine)


def _outcome(
    of: tuple[str, str], watch: Watch, traffic: Traffic, moments: tuple[float, float, float]
) -> Outcome:
    began, ready, decided = moments
    touched = [
        request for request in traffic.requests() if request["end"] > began and length(request) < SPLIT
    ]
    last = max([decided, *(request["start"] for request in touched)])
    return Outcome(
        *of,
        ready=ready - began, decided=decided - ready, safe=last - decided,
        touched=len(touched), longest=max((one["end"] - one["start"] for one in touched), default=0.0), failed=int(traffic.stop()["failed"]),
        extra=watch.most_pods() - REPLICAS, memory=watch.extra_memory(began),
        least=watch.least_ready(), restarts=watch.restarts(),
    )  # fmt: skip
