"""The signing key is exchanged while engines serve: none restarts, and no command is refused."""

from __future__ import annotations

import asyncio
import base64
import os
from typing import Any

from tests.faults import clockwork, points
from tests.faults.network import Network
from tests.faults.stories import Story, drafter
from tests.faults.world import World

from specdec.controller import keys
from specdec.controller.kinds import SECRET
from specdec.engine.protocol import LaunchPlan

NAMESPACE = "specdec-system"


def secret(world: World, change: dict[str, str]) -> None:
    live: Any = world.server.get(SECRET, NAMESPACE, keys.NAME)
    world.server.put({**live, "data": change})


def fields(world: World) -> dict[str, str]:
    live: Any = world.server.get(SECRET, NAMESPACE, keys.NAME)
    return dict(live["data"])


async def exchanged(world: World, told: list[LaunchPlan]) -> None:
    going = asyncio.create_task(world.go_on())
    await asyncio.sleep(5)
    (engine,) = world.engines.values()
    upcoming = base64.b64encode(os.urandom(32)).decode()
    secret(world, {**fields(world), keys.NEXT: upcoming})
    world.crash()  # as `kubectl rollout restart` does
    await asyncio.sleep(40)
    told.append(world.mounted_plan(engine))
    secret(world, {keys.FIELD: upcoming})
    world.crash()
    drafter("v2")(world)
    world.network.last_change = asyncio.get_running_loop().time()
    await points.settled(world)
    told.append(world.mounted_plan(engine))
    going.cancel()
    world.crash()


def test_a_key_is_exchanged_without_a_restart_of_engines_or_a_refused_command():
    world = points.begun(Story("exchange", drafter("v2"))).copied(Network())
    (before,) = world.engines.values()
    first, told = world.mounted_plan(before), list[LaunchPlan]()
    clockwork.run(exchanged(world, told), world.server.now + 20)
    (engine,) = world.engines.values()
    both, last = told
    assert both.public_keys[0] == first.public_keys[0]
    assert len(both.public_keys) == 2
    assert both.assignment == first.assignment
    assert last.public_keys == (both.public_keys[1],)
    assert (world.pods_made, engine.refused) == (1, [])
    assert engine.agent.promoted == engine.agent.serving == last.revision != first.revision
