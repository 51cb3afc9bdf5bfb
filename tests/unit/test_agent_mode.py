"""Drafting for a while: what ends it, and what it leaves behind."""

from __future__ import annotations

import asyncio

import pytest
from tests.support.agentcandidacy import Scene, running

from specdec.engine.protocol import CandidateState, Drafting, SetDrafting

pytestmark = pytest.mark.looptime

OFF_FOR_TEN = SetDrafting(drafting=Drafting.OFF, for_seconds=10)


async def test_drafting_that_is_off_for_a_while_comes_back_by_itself(monkeypatch):
    async with running(Scene(monkeypatch)) as scene:
        scene.candidacy.begin(OFF_FOR_TEN)
        await asyncio.sleep(9.9)
        assert (scene.slot.steps, scene.board.status.drafting) == (0, Drafting.OFF)
        assert scene.board.status.drafting_until
        await asyncio.sleep(0.2)
        assert (scene.slot.steps, scene.board.status.drafting) == (3, Drafting.ON)
        assert not scene.board.status.drafting_until


async def test_the_same_order_again_lasts_from_then_on(monkeypatch):
    async with running(Scene(monkeypatch)) as scene:
        scene.candidacy.begin(OFF_FOR_TEN)
        await asyncio.sleep(6)
        scene.candidacy.begin(OFF_FOR_TEN)
        await asyncio.sleep(9)
        assert scene.slot.steps == 0
        await asyncio.sleep(2)
        assert scene.slot.steps == 3


@pytest.mark.parametrize(("mode", "steps"), [(Drafting.ON, 3), (Drafting.OFF, 0)])
async def test_a_mode_that_lasts_takes_its_place(monkeypatch, mode, steps):
    async with running(Scene(monkeypatch)) as scene:
        scene.candidacy.begin(OFF_FOR_TEN)
        await asyncio.sleep(1)
        scene.candidacy.begin(SetDrafting(drafting=mode))
        await asyncio.sleep(0.1)
        assert (scene.slot.steps, scene.board.status.drafting_until) == (steps, "")
        await asyncio.sleep(20)
        assert scene.slot.steps == steps


async def test_drafting_for_a_while_ends_by_itself_as_well(monkeypatch):
    async with running(Scene(monkeypatch, drafting=Drafting.OFF)) as scene:
        scene.candidacy.begin(SetDrafting(drafting=Drafting.ON, for_seconds=10))
        await asyncio.sleep(1)
        assert scene.slot.steps == 3
        await asyncio.sleep(10)
        assert scene.slot.steps == 0


async def test_a_dead_home_does_not_draft_when_the_while_is_over(monkeypatch):
    async with running(Scene(monkeypatch, dead=True)) as scene:
        scene.candidacy.begin(OFF_FOR_TEN)
        await asyncio.sleep(11)
        assert scene.slot.steps == 0


async def test_a_candidate_is_probed_with_drafts_and_the_while_goes_on(monkeypatch):
    async with running(Scene(monkeypatch)) as scene:
        scene.candidacy.begin(OFF_FOR_TEN)
        scene.swap("b")
        await asyncio.sleep(3)
        assert (scene.steps_while_probing, scene.slot.steps) == ([3], 0)
        assert scene.candidate.state is CandidateState.SERVING
        await asyncio.sleep(8)
        assert scene.slot.steps == 3
