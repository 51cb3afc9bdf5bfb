"""A thousand engines in one process: each on a loopback address of its own, with `/status` and `/metrics`.

`/status` is the agent's, as `engine.protocol` has it. `/metrics` is a page of SGLang's shape: the gauges,
counters and histograms that an engine with speculation shows most, and no more of its hundred others. All
figures rise with every answer, so that nothing is ever the same twice.
"""

from __future__ import annotations

import asyncio
import sys

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from specdec.engine.protocol import AGENT_PORT, Counters, Drafting, Phase, Source, Status

GAUGES = (
    "num_running_reqs", "num_used_tokens", "token_usage", "gen_throughput", "num_queue_reqs", "cache_hit_rate",
    "spec_accept_length", "spec_accept_rate", "spec_num_steps", "spec_num_draft_tokens", "max_total_num_tokens",
    "num_grammar_queue_reqs", "num_retracted_reqs", "utilization", "is_cuda_graph", "startup_time_seconds",
)  # fmt: skip
SUMS = (
    "prompt_tokens", "generation_tokens", "num_requests", "cached_tokens", "num_aborted_requests",
    "spec_verify_calls", "cuda_graph_passes",
)  # fmt: skip
HISTOGRAMS = (
    "time_to_first_token_seconds", "e2e_request_latency_seconds", "inter_token_latency_seconds", "queue_time_seconds",
)  # fmt: skip
BUCKETS = [round(0.001 * 1.62**power, 6) for power in range(25)]
LABELS = {"model_name": "kimi-k2.5", "engine_type": "unified", "tp_rank": "0", "pp_rank": "0"}


def address_of(number: int) -> str:
    """Loopback address of one engine."""
    return f"127.77.{number // 250}.{number % 250 + 1}"


def said(number: int, turn: int) -> Status:
    """What one agent says at its turn."""
    requests, calls = 10 + 5 * turn, 120 + 60 * turn
    row = Counters(
        revision=f"s{number}-r1", steps=3, source=Source.TRAFFIC, requests=requests, calls=calls,
        correct=(calls * 8 // 10, calls * 6 // 10, calls * 4 // 10), tokens=calls * 28 // 10, seconds=f"{calls / 25:.6f}",
        request_seconds=f"{calls / 25:.6f}", dd=requests * 22 * 22, dc=requests * 22 * 12, cc=requests * 12 * 12,
        finished_drafts=requests * 22, finished_calls=requests * 12,
    )  # fmt: skip
    probes = row.model_copy(update={"source": Source.PROBE, "calls": 45, "correct": (36, 27, 18)})
    plain = Counters(revision=f"s{number}-r1", steps=0, source=Source.TRAFFIC, tokens=900, seconds="9.1")
    return Status(
        serial=7, pod_uid=f"uid-{number}", boot="b1", phase=Phase.SERVING, progress_at="2026-01-01T00:00:00Z",
        engine="sglang-0.5.23+cuda+specdec-0.1.0", assignment=4, epoch=3, revision=f"s{number}-r1",
        promoted=f"s{number}-r1", digest=f"sha256:{number:064d}", target_digest=f"sha256:{7:064d}", steps=3,
        max_steps=3, drafting=Drafting.ON, in_flight=4, counters=(row, probes, plain),
    )  # fmt: skip


class Page:
    """SGLang's page, written by the library that SGLang writes it with."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        names, of = tuple(LABELS), {"registry": self._registry}
        self._gauges = [Gauge(f"sglang:{name}", name, names, **of).labels(**LABELS) for name in GAUGES]
        self._sums = [Counter(f"sglang:{name}", name, names, **of).labels(**LABELS) for name in SUMS]
        self._histograms = [
            Histogram(f"sglang:{name}", name, names, buckets=BUCKETS, **of).labels(**LABELS)
            for name in HISTOGRAMS
        ]

    def text(self) -> bytes:
        """Serve one more request and write the page."""
        for gauge in self._gauges:
            gauge.inc(0.125)
        for sum_ in self._sums:
            sum_.inc(37)
        for histogram in self._histograms:
            histogram.observe(0.042)
        return generate_latest(self._registry)


class Engine(asyncio.Protocol):
    """One connection."""

    turns: dict[str, int] = {}  # noqa: RUF012 - one process, one dict
    numbers: dict[str, int] = {}  # noqa: RUF012 - as above
    pages: list[bytes] = []  # noqa: RUF012 - as above

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Find out which engine was called."""
        self._transport = transport
        self._address = transport.get_extra_info("sockname")[0]

    def data_received(self, data: bytes) -> None:
        """Answer one GET; nothing is pipelined."""
        turn = self.turns[self._address] = self.turns.get(self._address, 0) + 1
        if data.startswith(b"GET /metrics"):
            body, kind = self.pages[turn % len(self.pages)], b"text/plain"
        else:
            status = said(self.numbers[self._address], turn)
            body, kind = (
                status.model_dump_json(by_alias=True, exclude_defaults=True).encode(),
                b"application/json",
            )
        head = b"HTTP/1.1 200 OK\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n" % (kind, len(body))
        self._transport.write(head + body)  # type: ignore[attr-defined]


async def serve(count: int) -> None:
    """Serve until the process is ended; says `ready` once all are there."""
    page = Page()
    Engine.pages = [page.text() for _ in range(64)]
    Engine.numbers = {address_of(number): number for number in range(count)}
    server = await asyncio.get_running_loop().create_server(Engine, list(Engine.numbers), AGENT_PORT)
    print("ready", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1])))
