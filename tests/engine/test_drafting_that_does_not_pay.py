"""Drafting that costs more than it brings is switched off under load, and on again once it pays: on the real engine.

The drafter is the same all the time; how many users there are and what they write changes. It is right for 4 of 10 tokens: of some answers it knows
most and of others next to nothing, and where a verify call keeps that little the CPU engine is faster without drafting.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from string import ascii_letters, digits

import pytest
from tests.support.engine import STEPS, EngineSlot, models
from tests.support.enginepod import engine_pod, traffic, users
from tests.support.models import simulate
from tests.support.models.codes import FIRST_TEXT
from tests.support.operatedpod import OperatedPod

from specdec.engine.protocol import Drafting

pytestmark = [pytest.mark.engine, pytest.mark.timeout(420)]

DRAFTER, QUALITY = "q40", 0.4
TOKENS = 16
MANY, FEW = 8, 2
"""Users at a time: a verify batch of many costs more of what drafting saves."""


def kept(letter: str) -> float:
    """Accept length of an answer to a text that ends with this letter."""
    calls = simulate(FIRST_TEXT + ord(letter) - ord("!"), TOKENS, QUALITY, STEPS)
    return 1 + sum(calls) / len(calls)


LETTERS = "".join(sorted(ascii_letters + digits, key=kept))
HARD, EASY = LETTERS[:6], LETTERS[-6:]


@pytest.fixture(scope="module")
def operated(slot: EngineSlot) -> Iterator[OperatedPod]:
    """A pod that serves the drafter, whose worth its user wants measured."""
    slot.clear()
    with tempfile.TemporaryDirectory(prefix="pod-") as folder:
        pod = engine_pod(Path(folder), models()["kimi"].parent)
        try:
            yield OperatedPod.started(pod, DRAFTER, {"acceptance": {"baseline": "Measure"}})
        finally:
            pod.kill_container()


def lasting(operated: OperatedPod, wanted: Drafting) -> bool:
    """Whether the agent was told so for good."""
    status = operated.pod.status()
    return (status.drafting, status.drafting_until) == (wanted, "")


def test_it_is_switched_off_while_it_costs_and_on_again_when_it_pays(operated: OperatedPod):
    with users(operated.pod, MANY, HARD, TOKENS) as codes:
        shown = operated.until(lambda status: bool(status.slower_since), 150, "found slower than no drafting")
        assert float(shown.acceptance.speedup) < 1
        assert [event.reason for event in operated.events if event.reason == "DraftingOff"] == ["DraftingOff"]
        operated.until(
            lambda _: lasting(operated, Drafting.OFF), 10, "drafting off, and not for a block only"
        )
        status = operated.pod.status()
        assert (status.steps, status.revision) == (0, operated.record.name)
    print(f"hard texts: speedup {shown.acceptance.speedup}, pairs {operated.judge.stopwatch.baseline.pairs}")
    with users(operated.pod, FEW, EASY, TOKENS) as more:
        shown = operated.until(lambda status: not status.slower_since, 150, "found faster than no drafting")
        operated.until(lambda _: lasting(operated, Drafting.ON), 10, "drafting on, and not for a block only")
        status = operated.pod.status()
        assert status.steps == STEPS
    print(f"easy texts: {traffic(status, operated.record.name)}; {shown.acceptance}")
    assert set(codes) | set(more) == {200}
