"""Servers with pods: so many of four engines each, whose agents are polled all the time.

The API server, its etcd and the controllers that make pods are Kubernetes' own, nodes and kubelets are KWOK's, the agents are
fakes with users. Measured are the start of all, rest, single changes of a spec, one rollout of a drafter, and a restart.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import requests
from prometheus_client.parser import text_string_to_metric_families
from tests.cluster.tooling.places import GPUS_PER_NODE
from tests.support.ports import free_ports

from bench.beside import process
from bench.results import Row, measured, ranked
from bench.scaling.apiserver import ApiServer
from bench.scaling.load import MERGE, Progress, changed, prepared, storm, until
from bench.scaling.objects import SERVERS, Manifest, server
from bench.scaling.operators import ROOT, Process
from bench.scaling.pods import pods_are_made
from specdec.controller.poller import REST_SECONDS as POLL_SECONDS

REPLICAS = 4
SOAK_SECONDS = 5
START_SECONDS = 240.0
QUIET_SECONDS = 10.0
"""So long nothing is written before rest is measured."""
REST_SECONDS = 60.0
RESTART_SECONDS = 40.0
"""After a kill the Lease is free after 15 s."""
ROLLOUT_SECONDS = 90.0


@dataclass
class Found:
    """What was measured."""

    start_seconds: float = 0.0
    start_cpu: float = 0.0
    rest_cores: float = 0.0
    """CPU seconds a second, at the full rate of questions whatever the machine got done."""
    rest_writes: int = 0
    memory: float = 0.0
    """MB."""
    gaps: list[float] = field(default_factory=list)
    """Seconds between two questions to the same agent."""
    lag_seconds: float = 0.0
    """Wait of an agent that was due, the mean."""
    lag_late: float = 0.0
    """Share of the questions that waited for more than 50 ms."""
    changes: list[float] = field(default_factory=list)
    """Milliseconds from before each change was sent to the first write that tells of it."""
    rollout_seconds: float = 0.0
    rollout_writes: int = 0
    restart_writes: int = 0
    restart_seconds: float = 0.0
    """Until every agent was asked again."""


@dataclass(frozen=True)
class Site:
    """An operator among its servers, and the ports that tell of it."""

    api: ApiServer
    progress: Progress
    names: list[str]
    agents_port: int
    metrics_port: int

    def asked(self) -> tuple[list[float], float]:
        """Seconds between questions to one agent, as far as not told yet, and since the agent asked least lately was asked."""
        found = requests.get(f"http://127.0.0.1:{self.agents_port}/asked", timeout=10).json()
        return found["gaps"], found["oldest"]

    def lag(self) -> tuple[float, float, float]:
        """Of all questions so far: how many, how long they waited in all, how many of them 50 ms at most."""
        text = requests.get(f"http://127.0.0.1:{self.metrics_port}/metrics", timeout=10).text
        families = {family.name: family.samples for family in text_string_to_metric_families(text)}
        samples = families["specdec_poll_lag_seconds"]
        values = {
            (sample.name.rpartition("_")[2], sample.labels.get("le")): sample.value for sample in samples
        }
        return values["count", None], values["sum", None], values["bucket", "0.05"]


def replicated(count: int) -> Found:
    """Measure so many servers once."""
    found = Found()
    with site(count) as at:
        operator = Process("ours", at.api, at.metrics_port)
        try:
            _start(at, operator, found)
            _rest(at, operator, found)
            found.changes = changed(
                at.api, at.progress, at.names[1:]
            )  # the first one is rolled out as it began
            _rollout(at, found)
            _quiet(at.api)
            operator.stop()
            before = at.api.writes()
            operator = Process("ours", at.api, at.metrics_port)
            found.restart_seconds = _asked_again(at)
            time.sleep(max(0.0, RESTART_SECONDS - found.restart_seconds))
            found.restart_writes = at.api.writes() - before
        finally:
            operator.stop()
    return found


@contextlib.contextmanager
def site(count: int) -> Iterator[Site]:
    """An API server, nodes enough, and the agents of the pods to come."""
    names = [f"server-{number}" for number in range(count)]
    agents_port, metrics_port = free_ports(2)
    with prepared("pods") as api, contextlib.ExitStack() as stack:
        stack.enter_context(pods_are_made(api, -(-count * REPLICAS // GPUS_PER_NODE) + 1))
        command = [sys.executable, "-m", "bench.scaling.agents", str(agents_port)]
        environment = {**os.environ, "BENCH_URL": api.url, "PYTHONPATH": f"{ROOT}:{ROOT / 'operator'}"}
        stack.enter_context(process(command, api.folder / "agents.log", environment))
        yield Site(api, Progress(api), names, agents_port, metrics_port)


def wanted(name: str) -> Manifest:
    """One server of four engines."""
    gpu = {"resources": {"limits": {"nvidia.com/gpu": "1"}}}
    return server(name, replicas=REPLICAS, engine=gpu, rollout={"minSoakSeconds": SOAK_SECONDS})


def _start(at: Site, operator: Process, found: Found) -> None:
    """Make all servers; they are there when their first drafters are promoted."""
    storm(at.api, [wanted("first")])
    at.progress.wait(at.progress.seen, {"first": 1}, 60)
    cpu, began = operator.cpu(), time.perf_counter()
    storm(at.api, [wanted(name) for name in at.names])
    at.progress.wait(at.progress.current, dict.fromkeys(at.names, 1), START_SECONDS)
    found.start_seconds, found.start_cpu = time.perf_counter() - began, operator.cpu() - cpu


def _quiet(api: ApiServer) -> None:
    """Wait until nothing has been written for a while."""
    last = [(api.writes(), time.monotonic())]

    def quiet() -> bool:
        now = api.writes()
        if now != last[0][0]:
            last[0] = (now, time.monotonic())
        return time.monotonic() - last[0][1] > QUIET_SECONDS

    until(quiet, START_SECONDS, f"no {QUIET_SECONDS:.0f} s without a write in {START_SECONDS:.0f} s")


def _rest(at: Site, operator: Process, found: Found) -> None:
    """Look on while nothing changes."""
    _quiet(at.api)
    at.asked()
    before, cpu, (asked, waited, early) = at.api.writes(), operator.cpu(), at.lag()
    time.sleep(REST_SECONDS)
    cpu = operator.cpu() - cpu
    found.rest_writes, found.memory, found.gaps = at.api.writes() - before, operator.memory(), at.asked()[0]
    asked_now, waited_now, early_now = at.lag()
    asked = asked_now - asked
    found.rest_cores = cpu / asked * len(at.names) * REPLICAS / POLL_SECONDS
    found.lag_seconds, found.lag_late = (waited_now - waited) / asked, 1 - (early_now - early) / asked


def _rollout(at: Site, found: Found) -> None:
    """Roll the next drafter out on one server, onto all its engines."""
    _quiet(at.api)
    before, name = at.api.writes(), at.names[0]
    body = {"spec": {"drafter": {"model": "pvc://models/drafters/v2"}}}
    session, began = at.api.session(), time.perf_counter()
    answer = session.patch(f"{at.api.url}{SERVERS}/{name}", json=body, headers=MERGE, timeout=30)
    at.progress.wait(at.progress.current, {name: answer.json()["metadata"]["generation"]}, ROLLOUT_SECONDS)
    found.rollout_seconds = time.perf_counter() - began
    _quiet(at.api)
    found.rollout_writes = at.api.writes() - before - 1


def _asked_again(at: Site) -> float:
    """Wait until every agent was asked; seconds that it took."""
    began = time.monotonic()
    said = "not all engines were asked after the restart"
    until(lambda: at.asked()[1] < time.monotonic() - began, RESTART_SECONDS * 2, said)
    return time.monotonic() - began


def rows(found: Found, count: int) -> list[Row]:
    """Put one measurement into rows."""
    pods = count * REPLICAS
    of = f"{count} x {REPLICAS} engines"
    figures = [
        (f"{of}: from the first apply until all drafters are promoted", found.start_seconds, "s", None),
        (f"{of}: CPU of that", found.start_cpu, "s", None),
        (f"{of}: CPU at rest, all {pods:,} polled every 5 s", found.rest_cores, "core", None),
        (f"{of}: memory at rest", found.memory, "MB", 140.0),
        (f"{of}: writes in {REST_SECONDS:.0f} s of rest", found.rest_writes, "", 0.0),
        (f"{of}: poll lag, mean", found.lag_seconds * 1000, "ms", None),
        (f"{of}: poll lag, over 50 ms", found.lag_late * 100, "%", None),
        (f"{of}: a rollout onto the engines of one, {SOAK_SECONDS} s of soak in it", found.rollout_seconds, "s", None),
        (f"{of}: writes of that rollout", found.rollout_writes, "", None),
        (f"{of}: from a restart until all agents were asked", found.restart_seconds, "s", None),
        (f"{of}: writes after a restart with nothing to do", found.restart_writes, "", 0.0),
    ]  # fmt: skip
    return [
        *(measured(row, [round(value, 4)], unit, bar) for row, value, unit, bar in figures),
        ranked(f"{of}: between two questions to an agent", found.gaps, 50, "s"),
        ranked(f"{of}: between two questions to an agent", found.gaps, 99, "s"),
        ranked(f"{of}: spec -> first write", found.changes, 99, "ms", 250.0),
    ]
