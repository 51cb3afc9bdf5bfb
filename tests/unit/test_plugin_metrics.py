"""The engine's own metrics: they rise to the counters, whatever was published before."""

from __future__ import annotations

import pytest
from prometheus_client import REGISTRY

from specdec.engine.plugin.metrics import Exposition
from specdec.engine.protocol import Counters


def _row(steps: int, calls: int, correct: tuple[int, ...], tokens: int) -> Counters:
    return Counters(
        revision="r1", steps=steps, source="traffic", calls=calls, correct=correct, tokens=tokens, requests=0
    )


@pytest.fixture
def exposition():
    before = set(REGISTRY._collector_to_names)
    yield Exposition()
    for collector in set(REGISTRY._collector_to_names) - before:
        REGISTRY.unregister(collector)


def _value(name: str, steps: int, **labels: str) -> float | None:
    return REGISTRY.get_sample_value(
        f"specdec_{name}_total", {"revision": "r1", "steps": str(steps), "source": "traffic", **labels}
    )


def test_publishing_again_adds_what_is_new(exposition: Exposition):
    exposition.publish([_row(3, 2, (2, 1, 0), 5)])
    exposition.publish([_row(3, 2, (2, 1, 0), 5)])
    exposition.publish([_row(3, 5, (4, 2, 1), 12)])
    assert (_value("verify_calls", 3), _value("kept_tokens", 3)) == (5, 12)
    assert [_value("correct_drafts", 3, position=str(place)) for place in (1, 2, 3)] == [4, 2, 1]


def test_zero_steps_have_tokens_and_no_verify_calls(exposition: Exposition):
    exposition.publish([_row(0, 0, (), 7)])
    assert (_value("verify_calls", 0), _value("kept_tokens", 0)) == (None, 7)
