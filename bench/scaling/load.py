"""What users do to the benchmark's API server: they make servers, change them, and see what becomes of them."""

from __future__ import annotations

import contextlib
import json
import random
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import requests
import yaml

from bench.scaling.apiserver import ApiServer, api_server
from bench.scaling.objects import NAMESPACE, SERVERS, Manifest
from bench.scaling.operators import ROOT

WRITERS = 16
CHANGES = 300
"""So many that three are beyond the 99th percentile."""
CLAIM = {
    # Bound already, so that the scheduler takes pods which mount it.
    "metadata": {"name": "models", "annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
    "spec": {
        "accessModes": ["ReadOnlyMany"],
        "resources": {"requests": {"storage": "1Gi"}},
        "volumeName": "models",
        "storageClassName": "",
    },
}
MERGE = {"Content-Type": "application/merge-patch+json"}


class Progress:
    """Watches the servers: of which generation each one's status tells."""

    def __init__(self, api: ApiServer) -> None:
        self.seen: dict[str, int] = {}
        """Generation that the status has seen."""
        self.current: dict[str, int] = {}
        """Generation whose drafter serves on all engines."""
        self._api, self._news = api, threading.Condition()
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        session = self._api.session()
        with contextlib.suppress(requests.ConnectionError):  # the API server is gone, and with it the turn
            while True:
                # The API server may end a watch at any time; the next one begins with everything that is there.
                with contextlib.suppress(requests.exceptions.ChunkedEncodingError, json.JSONDecodeError):
                    self._follow(session)

    def _follow(self, session: requests.Session) -> None:
        answer = session.get(f"{self._api.url}{SERVERS}?watch=true", stream=True, timeout=(5, None))
        for line in answer.iter_lines(chunk_size=None):
            found = json.loads(line)["object"]
            name, status = found["metadata"]["name"], found.get("status", {})
            conditions = {item["type"]: item for item in status.get("conditions", ())}
            current = conditions.get("DrafterCurrent", {})
            with self._news:
                self.seen[name] = status.get("observedGeneration", 0)
                if current.get("status") == "True":
                    self.current[name] = current["observedGeneration"]
                self._news.notify_all()

    def wait(self, of: dict[str, int], wanted: dict[str, int], seconds: float) -> None:
        """Wait until each server is that far, in what it has seen or in what serves."""
        with self._news:
            if not self._news.wait_for(
                lambda: all(of.get(name, 0) >= number for name, number in wanted.items()), seconds
            ):
                behind = sum(of.get(name, 0) < number for name, number in wanted.items())
                raise SystemExit(f"{behind} of {len(wanted)} servers were not there within {seconds:.0f} s")


@contextlib.contextmanager
def prepared(name: str) -> Iterator[ApiServer]:
    """An API server with the CRD, the namespaces and the claim."""
    with api_server() as api:
        session = api.session()
        crd = yaml.safe_load((ROOT / "crds" / "specdecodeservers.yaml").read_text())
        definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        post(session, api.url + definitions, crd)
        for namespace in (NAMESPACE, "specdec-system"):
            post(session, f"{api.url}/api/v1/namespaces", {"metadata": {"name": namespace}})
        post(session, f"{api.url}/api/v1/namespaces/{NAMESPACE}/persistentvolumeclaims", CLAIM)
        until(lambda: session.get(api.url + SERVERS, timeout=10).ok, 30, f"{name}: the CRD is not served")
        yield api


def post(session: requests.Session, url: str, body: dict[str, Any]) -> None:
    """Make one object."""
    answer = session.post(url, json=body, timeout=30)
    if not answer.ok:
        raise SystemExit(f"{url}: {answer.status_code} {answer.text[:300]}")


def until(holds: Callable[[], bool], seconds: float, otherwise: str) -> None:
    """Wait until something holds; say the sentence where it does not in time."""
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            raise SystemExit(otherwise)
        time.sleep(0.2)


def storm(api: ApiServer, servers: list[Manifest]) -> None:
    """Make servers as fast as sixteen connections can."""
    local = threading.local()

    def make(wanted: Manifest) -> None:
        if not hasattr(local, "session"):
            local.session = api.session()
        post(local.session, api.url + SERVERS, wanted)

    with ThreadPoolExecutor(WRITERS) as pool:
        list(pool.map(make, servers))


def changed(api: ApiServer, progress: Progress, names: list[str]) -> list[float]:
    """Change one server after the other; milliseconds from before each change was sent until it was seen to."""
    session, rng, found = api.session(), random.Random(1), []  # noqa: S311 - no secret
    session.get(f"{api.url}/readyz", timeout=30)  # to connect is no part of a change
    for name in rng.sample(names, min(CHANGES, len(names))):
        body = {"spec": {"acceptance": {"minRequests": 9}}}
        began = time.perf_counter()
        answer = session.patch(f"{api.url}{SERVERS}/{name}", json=body, headers=MERGE, timeout=30)
        progress.wait(progress.seen, {name: answer.json()["metadata"]["generation"]}, 30)
        found.append((time.perf_counter() - began) * 1000)
    return found
