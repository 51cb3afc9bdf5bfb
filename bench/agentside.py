"""What judging costs the process that does it as the agent does, in a thread beside its event loop: `python -m bench.agentside TARGET DRAFTER...`."""

from __future__ import annotations

import asyncio
import importlib
import json
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from specdec.api.preflight import Preflight
from specdec.engine.agent.judging import Surroundings, examined, survey
from specdec.engine.agent.volumes import on_volume

LIMIT_SECONDS = 60.0


@dataclass(frozen=True)
class Cost:
    """What was left and how long the event loop stood still."""

    grown_mb: float
    """Memory that judging left in the process."""
    gap_ms: float
    """Longest time in which the event loop did not turn."""
    survey_seconds: float


def resident() -> float:
    """Memory of this process, MB."""
    text = Path("/proc/self/status").read_text()
    return int(text.partition("VmRSS:")[2].split()[0]) / 1024


async def turn(gaps: list[float]) -> None:
    """Turn every millisecond, and write down how long each turn took."""
    last = time.perf_counter()
    while True:
        await asyncio.sleep(0.001)
        now = time.perf_counter()
        gaps.append(now - last)
        last = now


async def cost(target: Path, drafters: list[Path]) -> Cost:
    """Survey a target and judge drafters for it."""
    gaps: list[float] = []
    loop = asyncio.create_task(turn(gaps))
    await asyncio.sleep(0.1)
    before, began = resident(), time.perf_counter()
    gaps.clear()
    around: Surroundings = await on_volume(LIMIT_SECONDS, survey, target, "0.5.23", (), {}, 3)
    seconds = time.perf_counter() - began
    for drafter in drafters:
        await on_volume(LIMIT_SECONDS, examined, drafter, around, Preflight())
    loop.cancel()
    return Cost(resident() - before, max(gaps) * 1000, seconds)


def main() -> None:
    """Print the cost as JSON, with all of the agent imported."""
    for part in ("main", "server"):
        importlib.import_module(f"specdec.engine.agent.{part}")
    target, *drafters = (Path(word) for word in sys.argv[1:])
    print(json.dumps(asdict(asyncio.run(cost(target, drafters)))))


if __name__ == "__main__":
    main()
