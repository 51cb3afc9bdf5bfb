"""Drafting off and on in place."""

from __future__ import annotations

import threading

import pytest
from tests.support.engine import STEPS, Engine
from tests.support.models import answer

from specdec.engine.loopback import Steps

pytestmark = pytest.mark.engine


def test_drafting_goes_off_and_on_without_changing_an_answer(engine: Engine, prompts):
    for steps in (0, STEPS, 0, STEPS):
        assert engine.order(Steps(steps=steps)).state == "done"
        assert engine.report().steps == steps
        prompt = next(prompts)
        before = engine.counters(steps=STEPS).calls
        generation = engine.generate(prompt, 41)
        assert generation.tokens == answer(prompt[-1], 41)
        assert engine.counters(steps=STEPS).calls - before == (10 if steps else 0)


def test_drafting_switches_in_the_middle_of_answers(engine: Engine, prompts):
    asked = [next(prompts) for _ in range(3)]
    got: dict[int, list[int]] = {}

    def ask(number: int) -> None:
        got[number] = engine.generate(asked[number], 200).tokens

    clients = [threading.Thread(target=ask, args=(number,)) for number in range(len(asked))]
    for client in clients:
        client.start()
    for steps in (0, STEPS) * 4:
        assert engine.order(Steps(steps=steps)).state == "done"
    for client in clients:
        client.join(60)
    assert got == {number: answer(prompt[-1], 200) for number, prompt in enumerate(asked)}


def test_a_step_count_without_a_runtime_state_is_refused(engine: Engine):
    outcome = engine.order(Steps(steps=STEPS + 1))
    assert (outcome.state, outcome.reason) == ("refused", "NoSuchSteps")
    assert engine.report().steps == STEPS
