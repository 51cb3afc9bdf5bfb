"""Fixtures of the tests on the real engine: one process at a time, shared, with broken drafters by swap."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support import load
from tests.support.engine import STEPS, Engine, EngineSlot, Launch
from tests.support.leash import leash

_prompts = load.prompts()
HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the tests on the engine with the good drafter first: between others it would be started again for each module."""
    places = [place for place, item in enumerate(items) if HERE in item.path.parents]
    ordered = sorted((items[place] for place in places), key=_has_its_own_engine)
    for place, item in zip(places, ordered, strict=True):
        items[place] = item


def _has_its_own_engine(item: pytest.Item) -> bool:
    return "engine" not in getattr(item, "fixturenames", ())


@pytest.fixture(scope="session", autouse=True)
def leashed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Leave no engine behind, not even when the tests are killed."""
    tmp_path_factory.getbasetemp()  # outside the leash's folder, as all of pytest's own
    with leash():
        yield


@pytest.fixture(scope="session")
def slot() -> Iterator[EngineSlot]:
    """Hold the one engine that may run."""
    held = EngineSlot()
    yield held
    held.clear()


@pytest.fixture
def engine(slot: EngineSlot) -> Engine:
    """Engine that serves with the good drafter, drafting on."""
    from specdec.engine.loopback import Steps

    running = slot.use(Launch("good"))
    report = running.report()
    if report.steps != STEPS:
        running.order(Steps(steps=STEPS))
    if report.revision != "good":
        running.swap("good")
    return running


@pytest.fixture
def prompts() -> Iterator[list[int]]:
    """Endless prompts that no test has used before, so that none meets the cache."""
    return _prompts
