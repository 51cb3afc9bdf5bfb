"""Where time goes: one short trace of SGLang's own profiler for each server, read kernel by kernel."""

from __future__ import annotations

import gzip
import json
import time
from collections import Counter
from pathlib import Path
from typing import Any

from tests.gpu.rows import Rows, say
from tests.gpu.servers import load
from tests.support.engine import Engine

CLIENTS, STEPS = 8, 30
ON_GPU = frozenset({"kernel", "gpu_memcpy", "gpu_memset"})
CALLS = "cuda_runtime"
SHOWN = 4
Events = list[dict[str, Any]]


def compare(rows: Rows, engines: dict[str, Engine]) -> None:
    """Profile servers under the same load; the first is what the others are compared with."""
    kernels, idle = {}, {}
    for name, engine in engines.items():
        events, calls = _trace(engine, Path(f"trace-{name}").absolute())
        steps = _steps(events)
        kernels[name], idle[name] = _per(steps, _kernels(events)), _per(steps, _idle(events))
        step = (events[-1]["ts"] + events[-1]["dur"] - events[0]["ts"]) / steps
        say(rows, "profile: GPU busy in a step", sum(kernels[name].values()), "us", mode=name, batch=CLIENTS,
            steps=steps, step=round(step, 1))  # fmt: skip
        say(rows, "profile: the scheduler's calls of CUDA in a step", len(calls) / steps, "calls", mode=name,
            batch=CLIENTS, us=round(sum(call["dur"] for call in calls) / steps, 1))  # fmt: skip
    base, *others = engines
    for name in others:
        _differences(rows, f"profile: {name} less {base}, GPU busy with", kernels[name], kernels[base])
        _differences(rows, f"profile: {name} less {base}, GPU idle", idle[name], idle[base])


def _differences(rows: Rows, what: str, found: dict[str, float], base: dict[str, float]) -> None:
    differences = Counter(found)
    differences.subtract(base)
    for name, more in sorted(differences.items(), key=lambda entry: -abs(entry[1]))[:SHOWN]:
        say(rows, what, more, "us", mode=name, batch=CLIENTS)


def _trace(engine: Engine, folder: Path) -> tuple[Events, Events]:
    """What the GPU did in so many steps, in its order, and what the scheduler asked of it."""
    body = {"output_dir": str(folder), "num_steps": STEPS, "activities": ["CPU", "GPU"], "with_stack": False}
    with load(engine, CLIENTS):
        status, said = engine.request("/start_profile", body)
        if status != 200:
            raise RuntimeError(f"/start_profile answered {status}: {said!r}")
        deadline = time.monotonic() + 60
        while not (written := list(folder.rglob("*.json.gz"))) and time.monotonic() < deadline:
            time.sleep(0.5)
    # The file is there before it is written whole.
    while written and time.monotonic() < deadline:
        try:
            events = json.loads(gzip.decompress(written[0].read_bytes()))["traceEvents"]
        except (EOFError, ValueError):
            time.sleep(0.5)
        else:
            on_gpu = sorted((e for e in events if e.get("cat") in ON_GPU), key=lambda event: event["ts"])
            return on_gpu, [event for event in events if event.get("cat") == CALLS]
    raise TimeoutError(f"no trace in {folder}")


def _steps(events: Events) -> int:
    """Steps that the trace holds: how often the rarest kernel ran of those that run in every step."""
    counts = Counter(event["name"] for event in events)
    return min((count for count in counts.values() if count >= STEPS // 2), default=1)


def _kernels(events: Events) -> dict[str, float]:
    """Microseconds by the kernel's name."""
    spent: Counter[str] = Counter()
    for event in events:
        spent[event["name"][:80]] += event["dur"]
    return spent


def _idle(events: Events) -> dict[str, float]:
    """Microseconds in which nothing ran, by the names of what ended before and began after."""
    spent: Counter[str] = Counter()
    last, until = events[0]["name"], events[0]["ts"]
    for event in events:
        if event["ts"] > until:
            spent[f"between {last[:40]} and {event['name'][:40]}"] += event["ts"] - until
        if event["ts"] + event["dur"] >= until:
            last, until = event["name"], event["ts"] + event["dur"]
    return spent


def _per(steps: int, spent: dict[str, float]) -> dict[str, float]:
    return {name: value / steps for name, value in spent.items()}
