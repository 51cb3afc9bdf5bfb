from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from specdec.engine.agent import slot as subject
from specdec.engine.agent.loopback_client import OrderRefusedError
from specdec.engine.agent.slot import DrafterSlot, Staged
from specdec.engine.agent.staging import Overlay
from specdec.engine.loopback import Commit, Outcome, Stage, Steps
from specdec.engine.protocol import DrafterRef
from specdec.preflight.checkpoint import CheckpointRefusedError


class Loopback:
    """A plugin that keeps the two newest staged drafters, as the real one does."""

    def __init__(self) -> None:
        self.orders: list[Stage | Commit | Steps] = []
        self.busy_until = 0.0
        self.refused: set[str] = set()
        self.seconds = 0.0

    async def order(self, order: Stage | Commit | Steps) -> int:
        self.orders.append(order)
        return len(self.orders)

    async def settled(self, number: int, *, seconds: float) -> Outcome:
        order = self.orders[number - 1]
        if isinstance(order, Commit):
            staged = [n for n, one in enumerate(self.orders[: number - 1], 1) if isinstance(one, Stage)]
            if order.stage not in staged[-2:]:
                raise OrderRefusedError("NotStaged", "staged no longer")
        elif isinstance(order, Stage):
            await self._stage(order)
        return Outcome(number=number, state="done")

    async def _stage(self, order: Stage) -> None:
        loop = asyncio.get_running_loop()
        if loop.time() < self.busy_until:
            raise OrderRefusedError("Busy", "another drafter is being staged")
        if order.revision in self.refused:
            raise OrderRefusedError("NotFinite", "not finite")
        self.busy_until = loop.time() + self.seconds
        await asyncio.sleep(self.seconds)

    def ops(self) -> list[str]:
        return [one.op for one in self.orders]


def overlay(name: str, **fields: Any) -> Overlay:
    drafter = DrafterRef(revision=name, version=name, path=f"/models/{name}")
    return Overlay(Path(f"/o/{name}"), Path(f"/models/{name}"), drafter, **fields)


@pytest.fixture
def slot(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> DrafterSlot:
    made = {
        "a": overlay("a"),
        "b": overlay("b"),
        "c": overlay("c"),
        "long": overlay("long", arguments=("--x", "1")),
    }

    async def link(_state: Path, _models: Path, drafter: DrafterRef, *_: object) -> Overlay:
        return made[drafter.revision]

    async def digest(staged: Overlay) -> str:
        return f"sha256:{staged.drafter.revision}"

    monkeypatch.setattr(subject, "link", link)
    monkeypatch.setattr(subject, "content_digest", digest)
    monkeypatch.setattr(subject, "unchanged", lambda _overlay: None)
    return DrafterSlot(Loopback(), tmp_path, tmp_path, 3, around=None, first=made["a"])  # type: ignore[arg-type]


async def test_the_way_back_is_one_commit(slot):
    home = await slot.keep_staged(Staged(overlay("a"), "sha256:a"))
    candidate = await slot.stage(overlay("b").drafter)
    await slot.commit(candidate)
    await slot.commit(home)
    assert slot.loopback.ops() == ["stage", "stage", "commit", "commit"]


async def test_a_home_that_is_staged_no_longer_is_staged_again(slot):
    home = await slot.keep_staged(Staged(overlay("a"), "sha256:a"))
    for name in ("b", "c"):
        await slot.stage(overlay(name).drafter)
    await slot.commit(home)
    assert slot.loopback.ops() == ["stage", "stage", "stage", "commit", "stage", "commit"]


async def test_home_is_staged_only_if_it_is_not_the_newest(slot):
    home = await slot.keep_staged(Staged(overlay("a"), "sha256:a"))
    assert await slot.keep_staged(home) == home
    assert slot.loopback.ops() == ["stage"]


async def test_steps_are_ordered_by_what_was_ordered_before(slot):
    for steps in (3, 3, 0, 3):
        await slot.draft(steps)
    assert [one.steps for one in slot.loopback.orders] == [3, 0, 3]


async def test_a_drafter_that_needs_other_arguments_needs_a_restart(slot):
    with pytest.raises(CheckpointRefusedError, match="--x 1") as caught:
        await slot.stage(overlay("long").drafter)
    assert caught.value.reason == "NotSwappable"
    assert slot.loopback.orders == []


@pytest.mark.looptime
async def test_a_drafter_waits_its_turn_while_another_is_still_being_staged(slot):
    slot.loopback.seconds = 20.0
    first = asyncio.create_task(slot.stage(overlay("b").drafter))
    await asyncio.sleep(1)
    first.cancel()
    assert (await slot.stage(overlay("c").drafter)).digest == "sha256:c"
    assert asyncio.get_running_loop().time() == pytest.approx(40, abs=1)


@pytest.mark.looptime
async def test_an_engine_that_stays_busy_says_so_in_the_end(slot):
    slot.loopback.busy_until = 1e9
    with pytest.raises(OrderRefusedError) as caught:
        await slot.stage(overlay("b").drafter)
    assert caught.value.reason == "Busy"
    assert asyncio.get_running_loop().time() == pytest.approx(subject.STAGE_SECONDS, abs=1)


@pytest.mark.looptime
async def test_home_is_staged_again_behind_a_drafter_that_nobody_waits_for(slot):
    home = await slot.keep_staged(Staged(overlay("a"), "sha256:a"))
    slot.loopback.seconds = 20.0
    left = asyncio.create_task(slot.stage(overlay("b").drafter))
    await asyncio.sleep(1)
    left.cancel()
    again = await slot.keep_staged(home)
    assert again.number > home.number
    await slot.stage(overlay("c").drafter)
    await slot.commit(again)
    assert slot.loopback.ops()[-2:] == ["stage", "commit"]


async def test_a_refused_drafter_leaves_home_the_newest(slot):
    home = await slot.keep_staged(Staged(overlay("a"), "sha256:a"))
    slot.loopback.refused.add("b")
    with pytest.raises(OrderRefusedError):
        await slot.stage(overlay("b").drafter)
    assert await slot.keep_staged(home) == home


async def test_a_volume_that_hangs_after_the_staging_is_named(slot, monkeypatch):
    release = threading.Event()
    monkeypatch.setattr(subject, "LINK_SECONDS", 0.05)
    monkeypatch.setattr(subject, "unchanged", lambda _overlay: release.wait())
    with pytest.raises(CheckpointRefusedError, match="/models/b could not be read") as caught:
        await slot.stage(overlay("b").drafter)
    release.set()
    assert caught.value.reason == "VolumeHangs"
