"""2,000 servers on a real kube-apiserver: our operator against kopf's default handlers and a raw asyncio floor.

Each operator gets an API server of its own, in turns (A B C A B C): a storm of new servers in two halves, to weigh
the operator between them, single changes of a spec, a restart with nothing to do, and rest. No controller makes pods,
so nothing but the API is measured.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import requests
import yaml

from bench.results import Row, measured, write
from bench.scaling.apiserver import ApiServer, api_server
from bench.scaling.objects import IMAGE, NAMESPACE, SERVERS, server

ROOT = Path(__file__).parents[1]
OPERATORS = {
    "ours": (sys.executable, "-m", "specdec.controller.main"),
    "kopf": (sys.executable, "-m", "kopf", "run", "--standalone", "-n", NAMESPACE, "--quiet", "-m", "bench.scaling.naive"),
    "floor": (sys.executable, "-m", "bench.scaling.floor"),
}  # fmt: skip
WRITERS = 16
CHANGES = 200
RESTART_SECONDS = 45.0
"""After a kill the Lease is free after 15 s; all servers are looked at well within the rest."""
REST_SECONDS = 60.0
CONVERGE_SECONDS = 400.0
MERGE = {"Content-Type": "application/merge-patch+json"}


@dataclass
class Measured:
    """What one operator did in one turn."""

    storm_seconds: float = 0.0
    storm_cpu: float = 0.0
    changes: list[float] = field(default_factory=list)
    """Milliseconds from each change's answer to the first write that tells of it."""
    writes_of_changes: int = 0
    restart_writes: int = 0
    rest_writes: int = 0
    memory_half: float = 0.0
    memory_all: float = 0.0
    """MB."""


class Progress:
    """Watches the servers: which generation each one's status has seen, and when."""

    def __init__(self, api: ApiServer) -> None:
        self.seen: dict[str, int] = {}
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
        for line in answer.iter_lines(chunk_size=1):
            found = json.loads(line)["object"]
            with self._news:
                observed = found.get("status", {}).get("observedGeneration", 0)
                self.seen[found["metadata"]["name"]] = observed
                self._news.notify_all()

    def wait(self, wanted: dict[str, int], seconds: float) -> None:
        """Wait until each server's status has seen that generation."""
        with self._news:
            if not self._news.wait_for(
                lambda: all(self.seen.get(name, 0) >= number for name, number in wanted.items()), seconds
            ):
                behind = sum(self.seen.get(name, 0) < number for name, number in wanted.items())
                raise SystemExit(f"{behind} of {len(wanted)} servers were not seen to within {seconds:.0f} s")


class Process:
    """One operator's process, its CPU seconds and its memory."""

    def __init__(self, name: str, api: ApiServer) -> None:
        environment = {
            **os.environ,
            "KUBECONFIG": str(api.kubeconfig),
            "BENCH_URL": api.url,
            "PYTHONPATH": f"{ROOT}:{ROOT / 'operator'}",
            "PYTHONWARNINGS": "ignore",
            "SPECDEC_DEFAULT_IMAGE": IMAGE,
            "SPECDEC_HTTP_HOST": "127.0.0.1",
            "SPECDEC_HTTP_PORT": "0",
            "SPECDEC_LOG_LEVEL": "WARNING",
        }
        self._child = subprocess.Popen(OPERATORS[name], env=environment, stderr=subprocess.DEVNULL)
        self._proc = Path(f"/proc/{self._child.pid}")

    def cpu(self) -> float:
        """CPU seconds so far."""
        fields = (self._proc / "stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory(self) -> float:
        """Resident MB."""
        text = (self._proc / "status").read_text()
        return int(text.partition("VmRSS:")[2].split()[0]) / 1024

    def stop(self, how: int = signal.SIGKILL) -> None:
        """End it."""
        self._child.send_signal(how)
        self._child.wait(30)


@contextlib.contextmanager
def prepared(name: str) -> Iterator[ApiServer]:
    """An API server with the CRD, the namespaces and the claim."""
    with api_server() as api:
        session = api.session()
        crd = yaml.safe_load((ROOT / "crds" / "specdecodeservers.yaml").read_text())
        definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        _post(session, api.url + definitions, crd)
        for namespace in (NAMESPACE, "specdec-system"):
            _post(session, f"{api.url}/api/v1/namespaces", {"metadata": {"name": namespace}})
        claim = {
            "metadata": {"name": "models"},
            "spec": {"accessModes": ["ReadOnlyMany"], "resources": {"requests": {"storage": "1Gi"}}},
        }
        _post(session, f"{api.url}/api/v1/namespaces/{NAMESPACE}/persistentvolumeclaims", claim)
        _until(lambda: session.get(api.url + SERVERS, timeout=10).ok, 30, f"{name}: the CRD is not served")
        yield api


def _post(session: requests.Session, url: str, body: dict[str, Any]) -> None:
    answer = session.post(url, json=body, timeout=30)
    if not answer.ok:
        raise SystemExit(f"{url}: {answer.status_code} {answer.text[:300]}")


def _until(holds: Any, seconds: float, otherwise: str) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            raise SystemExit(otherwise)
        time.sleep(0.2)


def storm(api: ApiServer, names: list[str]) -> None:
    """Make servers as fast as sixteen connections can."""
    local = threading.local()

    def make(name: str) -> None:
        if not hasattr(local, "session"):
            local.session = api.session()
        _post(local.session, api.url + SERVERS, server(name))

    with ThreadPoolExecutor(WRITERS) as pool:
        list(pool.map(make, names))


def changed(api: ApiServer, progress: Progress, names: list[str]) -> list[float]:
    """Change one server after the other; milliseconds until each change was seen to."""
    session, rng, found = api.session(), random.Random(1), []  # noqa: S311 - no secret
    for name in rng.sample(names, min(CHANGES, len(names))):
        body = {"spec": {"acceptance": {"minRequests": 9}}}
        answer = session.patch(f"{api.url}{SERVERS}/{name}", json=body, headers=MERGE, timeout=30)
        began, generation = time.perf_counter(), answer.json()["metadata"]["generation"]
        progress.wait({name: generation}, 30)
        found.append((time.perf_counter() - began) * 1000)
    return found


def turn(name: str, count: int) -> Measured:
    """Measure one operator once."""
    found, names = Measured(), [f"server-{number}" for number in range(count)]
    with prepared(name) as api:
        progress, process = Progress(api), Process(name, api)
        _post(api.session(), api.url + SERVERS, server("first"))
        progress.wait({"first": 1}, 60)  # it has begun
        cpu, began = process.cpu(), time.perf_counter()
        half = count // 2
        for part in (names[:half], names[half:]):
            storm(api, part)
            progress.wait(dict.fromkeys(part, 1), CONVERGE_SECONDS)
            found.memory_half = found.memory_half or process.memory()
        found.storm_seconds = time.perf_counter() - began
        found.storm_cpu = process.cpu() - cpu
        found.memory_all = process.memory()
        time.sleep(5)  # what was under way ends
        before = api.writes()
        found.changes = changed(api, progress, names)
        time.sleep(5)
        found.writes_of_changes = api.writes() - before - len(found.changes)
        process.stop()
        found.restart_writes, found.rest_writes = restarted(name, api)
    return found


def restarted(name: str, api: ApiServer) -> tuple[int, int]:
    """Start it again with nothing to do: its writes until it has looked at everything, and in the minute after."""
    before, process = api.writes(), Process(name, api)
    time.sleep(RESTART_SECONDS)
    first = api.writes()
    if name == "ours":
        time.sleep(REST_SECONDS)
    process.stop()
    return first - before, api.writes() - first


def rows(found: dict[str, list[Measured]], count: int) -> list[Row]:
    """Put the turns into rows; ratios are of one round each."""

    def ratios(what: str, other: str) -> list[float]:
        pairs = zip(found["ours"], found[other], strict=True)
        return [round(getattr(ours, what) / getattr(theirs, what), 3) for ours, theirs in pairs]

    def p99(turns: list[Measured]) -> list[float]:
        return [round(statistics.quantiles(one.changes, n=100)[98], 1) for one in turns]

    table = [
        measured(f"storm of {count}: wall, of kopf's", ratios("storm_seconds", "kopf"), "x", 0.4, "kopf's default handlers"),
        measured(f"storm of {count}: CPU, of kopf's", ratios("storm_cpu", "kopf"), "x", 0.5, "kopf's default handlers"),
        measured(f"storm of {count}: wall, of the floor's", ratios("storm_seconds", "floor"), "x", 2.0, "raw asyncio"),
        measured("spec -> first write, p99", p99(found["ours"]), "ms", 250.0),
    ]  # fmt: skip
    ours = found["ours"]
    per_object = [(one.memory_all - one.memory_half) * 1024 / (count - count // 2) for one in ours]
    table += [
        measured("writes after a restart with nothing to do", [one.restart_writes for one in ours], "", 0.0),
        measured("writes in 60 s of rest", [one.rest_writes for one in ours], "", 0.0),
        measured("writes per change of a spec", [one.writes_of_changes / len(one.changes) for one in ours], "", 2.0),
        measured(f"memory at {count // 2}", [one.memory_half for one in ours], "MB", 140.0),
        measured("memory per further server", per_object, "KB", 20.0),
    ]  # fmt: skip
    for name, turns in found.items():
        table += [
            measured(f"{name}: storm", [round(one.storm_seconds, 2) for one in turns], "s"),
            measured(f"{name}: CPU of the storm", [round(one.storm_cpu, 2) for one in turns], "s"),
            measured(f"{name}: p99 of a change", p99(turns), "ms"),
            measured(f"{name}: writes after a restart", [one.restart_writes for one in turns], ""),
            measured(f"{name}: memory at {count}", [one.memory_all for one in turns], "MB"),
        ]
    return table


def main() -> None:
    """Measure all, in turns."""
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--servers", type=int, default=2000)
    words.add_argument("--rounds", type=int, default=3)
    given = words.parse_args()
    found: dict[str, list[Measured]] = {name: [] for name in OPERATORS}
    for number in range(given.rounds):
        for name in OPERATORS:
            found[name].append(turn(name, given.servers))
            print(f"round {number + 1}: {name}: {found[name][-1].storm_seconds:.1f} s", file=sys.stderr)
    write("scale", rows(found, given.servers))


if __name__ == "__main__":
    main()
