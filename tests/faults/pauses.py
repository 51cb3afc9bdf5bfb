"""Split brain: an operator stands still in the middle of its work, another takes over, and the first wakes up.

Requests that were on their way when it stood still go out when it wakes: that is what fences are for.
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass

from tests.faults import clockwork
from tests.faults.essence import differences, essence
from tests.faults.network import Network
from tests.faults.points import Reference, settled
from tests.faults.process import Process
from tests.faults.world import World


@dataclass(frozen=True)
class Pause:
    """When the operator stands still after the story's turn, and how long."""

    after: float
    seconds: float


def drawn(seed: int) -> Pause:
    """Draw a pause; most are longer than a Lease lasts."""
    rng = random.Random(seed)
    return Pause(rng.uniform(0.0, 12.0), rng.choice((8.0, 17.0, 20.0, 40.0, 90.0)))


def trial(of: Reference, pause: Pause) -> list[str]:
    """Tell a story with a pause and a second operator; returns what was wrong."""
    random.seed(1)  # the spread of back-off
    world = of.beginning.copied(Network())
    clockwork.run(_told(world, of, pause), world.server.now + 20)
    assert world.process is not None
    late = [f"it changed something after another had taken over: {label}" for label in world.late]
    return late + differences(of.end, essence(world))


async def _told(world: World, of: Reference, pause: Pause) -> None:
    going = asyncio.create_task(world.go_on())
    second = Process(world, "operator-b")
    try:
        await asyncio.sleep(3)
        first = world.process
        assert first is not None
        second.start()
        of.story.act(world)
        await asyncio.sleep(pause.after)
        first.awake.clear()
        await asyncio.sleep(pause.seconds)
        first.awake.set()
        world.network.last_change = asyncio.get_running_loop().time()
        if not await settled(world):
            world.late.append("never at rest")
        world.late += [*first.late, *second.late]
    finally:
        going.cancel()
        world.crash()
        second.kill()
