from __future__ import annotations

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

    async def order(self, order: Stage | Commit | Steps) -> int:
        self.orders.append(order)
        return len(self.orders)

    async def settled(self, number: int, *, seconds: float) -> Outcome:
        order = self.orders[number - 1]
        if isinstance(order, Commit):
            staged = [n for n, one in enumerate(self.orders[: number - 1], 1) if isinstance(one, Stage)]
            if order.stage not in staged[-2:]:
                raise OrderRefusedError("NotStaged", "staged no longer")
        return Outcome(number=number, state="done")

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
