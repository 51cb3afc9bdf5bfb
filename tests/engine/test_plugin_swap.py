"""Swapping drafters in the running engine: what changes, and what must not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.support.engine import Engine, models
from tests.support.load import Load, Watch
from tests.support.models import DrafterShape, answer, drafter, expected_accept_length, simulate

from specdec.engine.loopback import Commit
from specdec.engine.protocol import Source

pytestmark = pytest.mark.engine

TOKENS = 41


def _check_answers(engine: Engine, prompts, quality: float, count: int = 8) -> float:
    """Ask, compare each answer with what must come of it, and return the accept length."""
    calls = drafts = 0
    for _ in range(count):
        prompt = next(prompts)
        generation = engine.generate(prompt, TOKENS)
        expected = simulate(prompt[-1], TOKENS, quality)
        assert generation.tokens == answer(prompt[-1], TOKENS)
        assert (generation.calls, generation.drafts) == (len(expected), sum(expected))
        calls, drafts = calls + generation.calls, drafts + generation.drafts
    return 1 + drafts / calls


def test_a_good_drafter_reaches_an_accept_length_of_four(engine: Engine, prompts):
    assert _check_answers(engine, prompts, 1.0) == expected_accept_length(1.0) == 4.0


def test_a_swap_changes_the_accept_length_as_computed_and_no_answer(engine: Engine, prompts):
    assert _check_answers(engine, prompts, 1.0) == 4.0
    outcome = engine.swap("q40")
    assert (outcome.state, engine.report().revision) == ("done", "q40")
    assert float(outcome.seconds) < 0.5
    assert _check_answers(engine, prompts, 0.4, 10) == pytest.approx(expected_accept_length(0.4), abs=0.3)
    engine.swap("q70")
    assert _check_answers(engine, prompts, 0.7, 10) == pytest.approx(expected_accept_length(0.7), abs=0.4)
    engine.swap("good")
    assert _check_answers(engine, prompts, 1.0) == 4.0


def test_a_dead_drafter_shows_an_accept_length_of_one(engine: Engine, prompts):
    engine.swap("dead")
    _check_answers(engine, prompts, 0.0)
    counted = engine.counters(revision="dead", source=Source.TRAFFIC)
    assert counted.calls > 0
    assert sum(counted.correct) == 0


def test_the_way_back_needs_no_second_staging(engine: Engine, prompts):
    back = engine.stage(models()["good"], "good")
    candidate = engine.stage(models()["dead"], "dead")
    engine.order(Commit(stage=candidate.number))
    outcome = engine.order(Commit(stage=back.number))
    assert (outcome.state, engine.report().revision) == ("done", "good")
    assert _check_answers(engine, prompts, 1.0) == 4.0


def test_the_drafter_that_was_staged_longest_ago_makes_room(engine: Engine):
    first, second, third = (engine.stage(models()[name], name) for name in ("q40", "good", "q70"))
    assert (first.state, second.state, third.state) == ("done", "done", "done")
    assert engine.order(Commit(stage=first.number)).reason == "NotStaged"
    assert engine.order(Commit(stage=second.number)).state == "done"
    assert engine.order(Commit(stage=third.number)).state == "done"


def test_a_drafter_that_was_not_staged_can_not_be_committed(engine: Engine, prompts):
    outcome = engine.order(Commit(stage=10**6))
    assert (outcome.state, outcome.reason) == ("refused", "NotStaged")
    assert _check_answers(engine, prompts, 1.0, 1) == 4.0


def test_a_swap_leaves_the_target_as_it_was(engine: Engine):
    before = _target_checksums(engine)
    engine.swap("q40")
    assert _target_checksums(engine) == before
    assert "language_model.model.embed_tokens.weight" in before


def test_a_drafter_that_brings_its_own_embedding_does_not_overwrite_the_targets(
    engine: Engine, prompts, tmp_path: Path
):
    before = _target_checksums(engine)
    outcome = engine.stage(drafter(tmp_path, DrafterShape(own_embedding=True)), "own-embedding")
    assert outcome.state == "done", outcome.message
    assert engine.order(Commit(stage=outcome.number)).state == "done"
    assert _target_checksums(engine) == before
    assert _check_answers(engine, prompts, 1.0) == 4.0


def test_a_drafter_brings_its_own_token_map(engine: Engine, prompts, tmp_path: Path):
    outcome = engine.stage(drafter(tmp_path, DrafterShape(first_draft_id=100)), "other-map")
    assert engine.order(Commit(stage=outcome.number)).state == "done"
    assert _check_answers(engine, prompts, 1.0) == 4.0
    engine.swap("good")
    assert _check_answers(engine, prompts, 1.0) == 4.0


def _target_checksums(engine: Engine) -> dict[str, str]:
    status, body = engine.request("/weights_checker", {"action": "checksum"})
    assert status == 200
    (rank,) = json.loads(body)["ranks"]
    return {name: value for name, value in rank["checksums"].items() if name.startswith("language_model.")}


def test_swaps_under_load_fail_no_request_and_change_no_answer(engine: Engine, prompts):
    watch = Watch(engine, 60)
    with Load(watch.ask, 3, prompts) as load:
        outcomes = [engine.swap(name) for name in ("q40", "good", "dead", "q70", "good")]
    assert (load.failed, watch.changed) == ([], [])
    assert all(outcome.state == "done" for outcome in outcomes)
    assert any(outcome.in_flight > 0 for outcome in outcomes)
    assert engine.counters(source=Source.CARRIED).calls > 0


def test_a_request_matches_no_draft_kv_of_another_drafter(engine: Engine, prompts):
    prompt = next(prompts) * 3
    # SGLang keys the cache by pairs of tokens when it drafts, so the last ones never match.
    most = len(prompt) - 2
    assert engine.generate(prompt).cached == 0
    assert engine.generate(prompt).cached == most
    engine.swap("q40")
    assert engine.generate(prompt).cached == 0
    assert engine.generate([*prompt[:20], *next(prompts)]).cached > 0
    # Back on the drafter that served first: requests that ran through the swaps have left mixed KV.
    engine.swap("good")
    assert engine.generate(prompt).cached == 0
    assert engine.generate(prompt).cached == most
