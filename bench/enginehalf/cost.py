"""What our plugin costs the scheduler: CPU of its thread inside our hooks, by a plugin that weighs ours."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.support.engine import Engine, EngineSlot, Launch
from tests.support.load import speed

from bench.results import Row, measured

GAUGE = Path(__file__).parent / "gauge"
WINDOWS = 5
TOKENS = 200
BATCHES = (1, 8)
BOOKED = "count_result"
"""Our hook that runs once in every decode batch."""


def rows(slot: EngineSlot, asked: Iterator[list[int]]) -> list[Row]:
    """Weigh on an engine of its own."""
    path = os.pathsep.join(filter(None, (str(GAUGE), os.environ.get("PYTHONPATH"))))
    engine = slot.use(Launch("good", environment=frozenset({("PYTHONPATH", path)})))
    return [_row(engine, batch, asked) for batch in BATCHES]


def _row(engine: Engine, batch: int, asked: Iterator[list[int]]) -> Row:
    found = []
    for _ in range(WINDOWS + 1):
        before = _weighed(engine)
        speed(engine, [next(asked) for _ in range(batch)], TOKENS)
        after = _weighed(engine)
        batches = after["calls"][BOOKED] - before["calls"].get(BOOKED, 0)
        found.append((after["nanoseconds"] - before["nanoseconds"]) / 1000 / batches)
    name = f"plugin's scheduler CPU per verify batch of {batch}"
    # The first window warms up.
    return measured(name, found[1:], "us", 100, "")


def _weighed(engine: Engine) -> dict[str, Any]:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(5)
        connection.connect(str(engine.run_dir / "gauge.sock"))
        with connection.makefile("rb") as stream:
            weighed: dict[str, Any] = json.loads(stream.readline())
            return weighed
