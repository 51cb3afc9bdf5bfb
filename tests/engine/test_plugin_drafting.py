"""Drafting off and on in place."""

from __future__ import annotations

import json
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
    met = set()
    while any(client.is_alive() for client in clients):
        for steps in (0, STEPS):
            before = engine.report().in_flight
            assert engine.order(Steps(steps=steps)).state == "done"
            if before and engine.report().in_flight:
                met.add(steps)
    assert met == {0, STEPS}
    assert got == {number: answer(prompt[-1], 200) for number, prompt in enumerate(asked)}


def test_a_step_count_without_a_runtime_state_is_refused(engine: Engine):
    outcome = engine.order(Steps(steps=STEPS + 1))
    assert (outcome.state, outcome.reason) == ("refused", "NoSuchSteps")
    assert engine.report().steps == STEPS


def test_with_drafting_off_the_target_decodes_plainly_and_the_way_back_finds_no_holes(
    engine: Engine, prompts
):
    assert engine.report().plain
    prompt = next(prompts) * 3
    engine.order(Steps(steps=0))
    assert engine.generate(prompt, 60).tokens == answer(prompt[-1], 60)
    # Still off, the same prefix is found.
    assert engine.generate(prompt, 60).cached > 0
    engine.order(Steps(steps=STEPS))
    generation = engine.generate(prompt, 41)
    # What was decoded while off has no draft KV: it is not found again, and acceptance is whole at once.
    assert (generation.cached, generation.calls, generation.drafts) == (0, 10, 30)
    assert engine.generate(prompt, 41).cached > 0


def test_kept_warm_the_way_back_keeps_the_cache(engine: Engine, prompts):
    prompt = next(prompts) * 3
    engine.generate(prompt, 41)
    engine.order(Steps(steps=0, warm=True))
    assert engine.generate(prompt, 41).tokens == answer(prompt[-1], 41)
    engine.order(Steps(steps=STEPS))
    generation = engine.generate(prompt, 41)
    assert generation.cached > 0
    assert (generation.calls, generation.drafts) == (10, 30)


def test_what_needs_the_verify_path_still_takes_it(engine: Engine, prompts):
    engine.order(Steps(steps=0))
    prompt = next(prompts)
    sampling = {"max_new_tokens": 20, "temperature": 0, "ignore_eos": True}
    body = {"input_ids": prompt, "sampling_params": sampling, "return_logprob": True}
    status, found = engine.request("/generate", body)
    assert status == 200
    document = json.loads(found)
    assert document["output_ids"] == answer(prompt[-1], 20)
    assert len(document["meta_info"]["output_token_logprobs"]) == 20
