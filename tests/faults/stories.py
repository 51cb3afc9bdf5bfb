"""The main stories: how each begins, and what its user does then."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.faults.world import KEY, Manifest, World
from tests.support.scenario_agent import Model

from specdec.controller.kinds import CLAIM, CONTROLLER_REVISION
from specdec.resources import revision_record

FOLDER = "/models/models/drafters"
QUALITY: dict[str, Model] = {
    "v1": Model(quality=0.95),
    "v2": Model(quality=0.95),
    "refused": Model(refusal="TensorsNotConsumed"),
    "dead": Model(quality=0.0),
    "weak": Model(quality=0.3),
}
"""Drafters: two good ones, neither of which is a regression from the other, one that fits nothing, one that fails its probe,
one that is bad on live traffic."""


def spec(version: str | None = "v1", **more: Manifest | str | int) -> Manifest:
    """What the user applies."""
    drafter = {"drafter": {"model": f"pvc://models/drafters/{version}"}} if version else {}
    return {
        "target": {"model": "pvc://models/target"},
        "replicas": 1,
        "engine": {"image": "registry.example/specdec/engine:1"},
        "acceptance": {"minAcceptLength": "2.2"},
        "rollout": {"minSoakSeconds": 5},
        **drafter,
        **more,
    }


def empty(seed: int = 1) -> World:
    """A cluster with models, and no server."""
    world = World({f"{FOLDER}/{name}": model for name, model in QUALITY.items()}, seed=seed)
    claim = {
        "apiVersion": "v1",
        "kind": CLAIM.kind,
        "metadata": {"namespace": KEY[0], "name": "models"},
        "spec": {"accessModes": ["ReadOnlyMany"]},
        "status": {"phase": "Bound"},
    }
    world.server.put(claim)
    return world


def drafter(version: str) -> Callable[[World], None]:
    """Apply another drafter."""
    return lambda world: world.edit(drafter={"model": f"pvc://models/drafters/{version}"})


def undo(world: World) -> None:
    """Ask for the first revision."""
    records = [revision_record(item) for item in world.server.of(CONTROLLER_REVISION)]
    first = min(records, key=lambda record: record.number)
    world.ask(f"undo@{first.name}@1")


@dataclass(frozen=True)
class Story:
    """One main scenario."""

    name: str
    act: Callable[[World], None]
    """What the user does."""
    before: tuple[Callable[[World], None], ...] = (lambda world: world.apply(spec()),)
    """What happened earlier, each brought to rest."""


def start(**more: Manifest | str | int) -> Callable[[World], None]:
    """Apply the server for the first time."""
    return lambda world: world.apply(spec(**more))


STORIES = (
    Story("first start", start(), ()),
    Story("refused at first", lambda world: world.apply(spec("refused")), ()),
    Story("good rollout", drafter("v2")),
    Story("dead candidate", drafter("dead")),
    Story("refused candidate", drafter("refused")),
    Story("bad live candidate", drafter("weak")),
    Story("restart of inputs", lambda world: world.edit(engine={"contextLength": 4096})),
    Story("undo", undo, (start(), drafter("v2"))),
    Story("scale up", lambda world: world.edit(replicas=2)),
    Story("good rollout on two", drafter("v2"), (start(replicas=2),)),
    Story("restart of two", lambda world: world.edit(engine={"contextLength": 4096}), (start(replicas=2),)),
    Story("drafting off", lambda world: world.edit(drafting="Off")),
)
