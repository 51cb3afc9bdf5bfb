"""Fault points: each story once without a fault, then once with each fault at each place; all must end alike."""

from __future__ import annotations

import asyncio
import functools
import random
from dataclasses import dataclass, field

from tests.faults import clockwork
from tests.faults.essence import Essence, differences, essence
from tests.faults.network import FAULTS, Channel, Fault, Network, Place
from tests.faults.stories import STORIES, Story, empty
from tests.faults.world import EPOCH, World

from specdec.controller import watches

REST_SECONDS = 45.0
"""Without a change for so long, a slow pass included, a story is at rest."""
UNHEARD_SECONDS: dict[Fault | None, float] = {
    Fault.DROPPED: 300.0,
    Fault.DEAF: watches.WATCH_SECONDS + watches.DEAF_SECONDS,
}
"""What a watch never delivers is found by the comparison with a fresh list, every five minutes; a deaf one is left."""
LONGEST_SECONDS = 1200.0
"""A story that is not at rest by then is stuck."""


@dataclass
class Reference:
    """One story without faults."""

    story: Story
    beginning: World
    end: Essence
    seconds: float
    swaps: int
    rollbacks: int
    places: dict[Channel, int]
    labels: dict[tuple[Channel, int], str]


@dataclass(frozen=True)
class Outcome:
    """What became of one story with one fault."""

    place: Place | None
    met: bool
    seconds: float
    """From the story's turn to its last change."""
    wrong: list[str] = field(default_factory=list)


async def settled(world: World, seconds: float = REST_SECONDS) -> bool:
    """Wait until nothing was changed for a while; says whether that came in time."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + LONGEST_SECONDS
    while loop.time() < deadline:
        if loop.time() - world.network.last_change >= seconds:
            return True
        await asyncio.sleep(1)
    return False


async def _told(world: World, *acts: object, story: Story | None = None) -> bool:
    """Let a world go on, with one act after the other."""
    loop = asyncio.get_running_loop()
    going = asyncio.create_task(world.go_on())
    rested = True
    try:
        for act in (*acts, *([story.act] if story else ())):
            await asyncio.sleep(3)  # the operator has begun
            if story is not None and act is story.act:
                world.network.counting = True
                world.network.last_change = loop.time()
            act(world)  # type: ignore[operator]
            world.network.last_change = loop.time()
            fault = world.network.place.fault if world.network.place else None
            rested = await settled(world, REST_SECONDS + UNHEARD_SECONDS.get(fault, 0.0))
        if going.done():
            going.result()
    finally:
        going.cancel()
        world.crash()
    return rested


def begun(story: Story, seed: int = 1) -> World:
    """Bring a world to where a story begins."""
    world = empty(seed)
    world.network.kill = world.crash
    if story.before:
        random.seed(seed)
        clockwork.run(_told(world, *story.before), EPOCH)
    return world


def told(story: Story, beginning: World, place: Place | None) -> tuple[World, bool]:
    """Tell a story on a copy of its beginning; says whether it came to rest."""
    random.seed(1)  # the spread of back-off
    world = beginning.copied(Network(place))
    rested = clockwork.run(_told(world, story=story), world.server.now + 20)
    return world, rested


@functools.cache
def reference(story: Story) -> Reference:
    """Tell a story without faults, once in a process: whoever goes on does so from a copy of its beginning."""
    beginning = begun(story)
    world, rested = told(story, beginning, None)
    if not rested:
        raise AssertionError(
            f"{story.name} does not come to rest even without a fault: {world.network.changes[-8:]}"
        )
    return Reference(
        story, beginning, essence(world), world.network.last_change, _swaps(world), world.rollbacks,
        dict(world.network.seen), world.network.labels,
    )  # fmt: skip


def _swaps(world: World) -> int:
    return sum(len(pod.swapped_in) for pod in world.engines.values())


def writes(of: Reference, words: str) -> list[int]:
    """Numbers of a story's writes whose label begins so."""
    return [
        number
        for (channel, number), label in sorted(of.labels.items())
        if channel is Channel.WRITE and label.startswith(words)
    ]


def places(of: Reference) -> list[Place]:
    """Every place where a fault can be put into a story."""
    return [
        Place(channel, number, fault)
        for channel in Channel
        for number in range(of.places.get(channel, 0))
        for fault in FAULTS[channel]
    ]


def outcome(of: Reference, place: Place) -> Outcome:
    """Tell a story with one fault and compare; a fault that was not met has shown nothing."""
    world, rested = told(of.story, of.beginning, place)
    wrong = differences(of.end, essence(world))
    if not world.network.met:
        wrong.append("the fault was not met")
    if not rested:
        wrong.append(f"not at rest after {LONGEST_SECONDS:.0f} s: {world.network.changes[-4:]}")
    if _swaps(world) > of.swaps + 1:
        wrong.append(f"{_swaps(world)} swaps where {of.swaps} are needed")
    if world.rollbacks > of.rollbacks + 1:
        wrong.append(f"{world.rollbacks} rollbacks where {of.rollbacks} are needed")
    if world.most_down > 1:
        wrong.append(f"{world.most_down} engines down at once")
    return Outcome(place, world.network.met, world.network.last_change, wrong)


def references() -> list[Reference]:
    """All stories without faults."""
    return [reference(story) for story in STORIES]
