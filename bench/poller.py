"""What it costs to watch 1,000 engines every 5 s: our poller and judge, beside scraping and parsing their /metrics.

The engines are one process of their own (`bench.polling.engines`). Ours is the product's own code: `Poller` with
`HttpAgents`, and `LedgerJudge` for whatever has news. The other side asks for /metrics with the same HTTP client and
takes the figures out with prometheus_client's parser, and judges nothing. They take turns.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import aiohttp
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from prometheus_client.parser import text_string_to_metric_families

from bench.polling.engines import address_of
from bench.results import Row, measured, write
from specdec.api.v1alpha1 import SpecDecodeServer
from specdec.controller.agents import HttpAgents
from specdec.controller.clock import Clock
from specdec.controller.judging import LedgerJudge
from specdec.controller.poller import REST_SECONDS, Poller
from specdec.controller.store import Key, Store
from specdec.engine.protocol import AGENT_PORT
from specdec.resources import launch_plan_of
from specdec.resources.labels import SERVER
from specdec.rollout import revisions
from specdec.rollout.clock import exact
from specdec.rollout.launch import arguments
from specdec.rollout.plan import plan
from specdec.rollout.quarantine import PROMOTED
from specdec.rollout.world import ClaimView, PodView, RevisionRecord, Settings, World

BAR_CORES = 0.15
ASKED_AT_ONCE = 64
WINDOW_SECONDS = 2 * REST_SECONDS
SETTINGS = Settings("registry.example/specdec/engine:1", ("registry.example/specdec/",))
WANTED = ("sglang:spec_verify_calls", "sglang:generation_tokens", "sglang:spec_accept_length")


def pod(number: int) -> dict[str, Any]:
    """An engine pod as its watch shows it."""
    metadata = {
        "name": f"s{number}-0", "namespace": "llm", "uid": f"uid-{number}", "labels": {SERVER: f"s{number}"},
        "resourceVersion": "1",
    }  # fmt: skip
    return {"kind": "Pod", "metadata": metadata, "status": {"podIP": address_of(number)}}


def world(number: int) -> World:
    """A server at rest: its drafter was promoted."""
    acceptance = {"minAcceptLength": "1.8"}
    spec = {
        "target": {"model": "pvc://models/t"},
        "drafter": {"model": "pvc://models/v1"},
        "acceptance": acceptance,
        "preflight": {"mode": "Off"},  # its Job would stand before the launch plan
    }
    metadata = {"name": f"s{number}", "namespace": "llm", "uid": f"u{number}", "generation": 1}
    server = SpecDecodeServer.model_validate({"metadata": metadata, "spec": spec})
    content = revisions.content(server, SETTINGS)
    record = RevisionRecord(
        f"s{number}-r1", 1, content, PROMOTED, at=exact(time.time() - 9999), digest="sha256:1"
    )
    view = PodView(f"s{number}-0", f"uid-{number}", time.time() - 9999, ready=True, was_ready=True)
    first = World(server, SETTINGS, (view,), (ClaimView("models", exists=True),), (record,))
    made = plan(first, {}, time.time())
    standing = next(launch_plan_of(item) for item in made.objects if item["kind"] == "ConfigMap")
    standing = standing.model_copy(update={"revision": record.name, "arguments": arguments(record)})
    return replace(first, launch_plan=standing)


class Ours:
    """Poller and judges of so many servers."""

    def __init__(self, session: aiohttp.ClientSession, count: int) -> None:
        self.store, self.news, self.judged = Store(), set[Key](), 0
        for number in range(count):
            self.store.put(pod(number))
        agents = HttpAgents(session, Ed25519PrivateKey.generate())
        self.poller = Poller(agents, self.store, Clock(), self.news.add, slots=ASKED_AT_ONCE)
        self.worlds = {("llm", f"s{number}"): world(number) for number in range(count)}
        self.judges = {key: LedgerJudge(key) for key in self.worlds}

    async def run(self, seconds: float) -> int:
        """Watch for so long; returns how many looks were judged."""
        before, until = self.judged, time.monotonic() + seconds
        polling = asyncio.create_task(self.poller.run())
        while time.monotonic() < until:
            await asyncio.sleep(0.05)
            while self.news:
                self._judge(self.news.pop())
        polling.cancel()
        await asyncio.gather(polling, return_exceptions=True)
        return self.judged - before

    def _judge(self, key: Key) -> None:
        known = self.worlds[key]
        heard = self.poller.heard[known.pods[0].uid]
        seen = replace(known.pods[0], status=heard.status, heard_at=heard.at)
        self.judges[key].evidence(replace(known, pods=(seen,)), heard.at)
        self.judged += 1


class Scraper:
    """The other side: every engine's /metrics, parsed."""

    def __init__(self, session: aiohttp.ClientSession, count: int) -> None:
        self.session, self.count, self.bytes, self.seen = session, count, 0, dict[str, float]()

    async def run(self, seconds: float) -> int:
        """Scrape for so long, every engine once in 5 s; returns how many pages were read."""
        rounds = round(seconds / REST_SECONDS)
        slots = asyncio.Semaphore(ASKED_AT_ONCE)
        for _ in range(rounds):
            began = time.monotonic()
            await asyncio.gather(*(self._scrape(address_of(number), slots) for number in range(self.count)))
            await asyncio.sleep(max(0.0, REST_SECONDS - (time.monotonic() - began)))
        return rounds * self.count

    async def _scrape(self, address: str, slots: asyncio.Semaphore) -> None:
        async with slots, self.session.get(f"http://{address}:{AGENT_PORT}/metrics") as answer:
            text = await answer.text()
        self.bytes = len(text)
        for family in text_string_to_metric_families(text):
            if family.name in WANTED:
                for sample in family.samples:
                    self.seen[address + sample.name] = sample.value


async def cores(run: Callable[[float], Awaitable[int]], count: int) -> float:
    """CPU seconds a second for `count` engines every 5 s, whatever the machine got done in the window."""
    gc.collect()
    before = time.process_time()
    looks = await run(WINDOW_SECONDS)
    return (time.process_time() - before) / looks * count / REST_SECONDS


async def compared(count: int, times: int) -> list[Row]:
    """Take turns, every other time in the other order."""
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector) as session:
        ours, scraper = Ours(session, count), Scraper(session, count)
        await ours.run(2.0)
        mine, theirs = list[float](), list[float]()
        sides = [(mine, ours.run), (theirs, scraper.run)]
        for number in range(times):
            for found, run in sides[:: -1 if number % 2 else 1]:
                found.append(await cores(run, count))
    ratios = [own / other for own, other in zip(mine, theirs, strict=True)]
    page = f"pages of {scraper.bytes / 1024:.0f} KB"
    return [
        measured(f"poller and judge, {count:,} engines every 5 s", mine, "core", BAR_CORES),
        measured(f"scraping and parsing their /metrics, {page}", theirs, "core"),
        measured("ours / scraping", ratios, "x", 1.0, "scraping and parsing"),
    ]


def main() -> None:
    """Measure, print, keep."""
    parser = argparse.ArgumentParser(prog="bench.poller", description=__doc__)
    parser.add_argument("--engines", type=int, default=1000)
    parser.add_argument("--times", type=int, default=5)
    asked = parser.parse_args()
    command = [sys.executable, "-m", "bench.polling.engines", str(asked.engines)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as engines:
        try:
            if engines.stdout is None or engines.stdout.readline().strip() != "ready":
                raise SystemExit("the engines did not start: see above")
            write("poller", asyncio.run(compared(asked.engines, asked.times)))
        finally:
            engines.terminate()


if __name__ == "__main__":
    main()
