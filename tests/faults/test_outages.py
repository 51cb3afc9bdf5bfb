"""The API server is away for ten minutes, or deaf: nothing is undone meanwhile, and what is owed is done at once after."""

from __future__ import annotations

import asyncio
import random

import pytest
from tests.faults import clockwork, points
from tests.faults.essence import differences, essence
from tests.faults.network import Network
from tests.faults.stories import STORIES, Story
from tests.faults.world import World

AWAY_SECONDS = 600.0
BACK_SECONDS = 2.0
BEGUN_SECONDS = 25.0
"""The Lease of the life before is over, and the operator has looked at everything."""
NAMES = {"bad live candidate", "restart of two"}
TOLD = [story for story in STORIES if story.name in NAMES]


async def away(world: World, story: Story, *, before: bool, hung: bool) -> list[str]:
    """Let the API server be away right after the user's act, or right before it comes back; its changes by then."""
    network, loop = world.network, asyncio.get_running_loop()
    going = asyncio.create_task(world.go_on())
    await asyncio.sleep(BEGUN_SECONDS)
    lives = world.lives
    if before:
        story.act(world)
        await asyncio.sleep(1)
    network.outage(hung=hung)
    told = list(network.changes)
    await asyncio.sleep(AWAY_SECONDS)
    meanwhile = network.changes[len(told) :]
    network.changed.clear()
    returned = loop.time()
    network.back()
    if not before:
        story.act(world)
    await network.changed.wait()
    waited = loop.time() - returned
    network.last_change = loop.time()
    rested = await points.settled(world)
    going.cancel()
    world.crash()
    late = [f"acted {waited:.1f} s after its return"] if waited > BACK_SECONDS else []
    restless = [] if rested else ["never at rest"]
    return meanwhile + late + restless + ["it was started again"] * (world.lives > lives)


@pytest.mark.parametrize("hung", [False, True], ids=["refuses", "hangs"])
@pytest.mark.parametrize("before", [True, False], ids=["act-before", "act-after"])
@pytest.mark.parametrize("story", TOLD, ids=lambda story: story.name.replace(" ", "-"))
def test_an_api_server_that_was_away_is_acted_upon_at_once_and_nothing_was_undone(
    story: Story, before: bool, hung: bool
):
    of = points.reference(story)
    random.seed(1)  # the spread of back-off
    world = of.beginning.copied(Network())
    wrong = clockwork.run(away(world, story, before=before, hung=hung), world.server.now + 20)
    assert wrong + differences(of.end, essence(world)) == []
    assert world.most_down <= 1
