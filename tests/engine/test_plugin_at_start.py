"""What the plugin checks and sets before the engine serves its first request."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.engine import STEPS, Engine, EngineSlot, Launch, failing, start_report, wait_until_ended
from tests.support.models import DrafterShape, answer, drafter, simulate

from specdec.engine.loopback import Commit, Steps
from specdec.engine.plugin import DRAFTER_PATCHES, PATCHES
from specdec.engine.protocol import Drafting

pytestmark = pytest.mark.engine


@pytest.fixture(scope="module")
def renamed(slot: EngineSlot) -> Iterator[Engine]:
    """Engine that starts on a renamed drafter, beside those that serve; its test comes last."""
    slot.clear()
    with failing(Launch("renamed")) as engine:
        yield engine


@pytest.mark.usefixtures("renamed")
def test_a_start_without_a_drafter_serves_and_counts_tokens(slot: EngineSlot, prompts):
    engine = slot.use(Launch(""))
    prompt = next(prompts)
    assert engine.generate(prompt, 20).tokens == answer(prompt[-1], 20)
    report = engine.report()
    assert set(PATCHES) <= set(report.patches)
    assert (report.revision, report.steps, report.states) == ("", 0, ())
    # The first token comes from prefill.
    assert engine.counters(steps=0).tokens == 19
    assert engine.order(Steps(steps=STEPS)).reason == "NoSuchSteps"


def test_a_start_with_drafting_off_serves_its_first_batch_without_drafts(slot: EngineSlot, prompts):
    engine = slot.use(Launch("embedding", Drafting.OFF))
    report = engine.report()
    assert set(PATCHES + DRAFTER_PATCHES) <= set(report.patches)
    assert (report.steps, report.states) == (0, (0, STEPS))
    prompt = next(prompts)
    assert engine.generate(prompt, 20).tokens == answer(prompt[-1], 20)
    assert engine.counters().calls == 0


def test_a_drafter_that_reads_the_embedding_output_drafts_as_it_was_trained(slot: EngineSlot, prompts):
    engine = slot.use(Launch("embedding", Drafting.OFF))
    assert engine.order(Steps(steps=STEPS)).state == "done"
    generation = engine.generate(next(prompts), 41)
    assert (generation.calls, generation.drafts) == (10, 30)


def correct_drafts(engine: Engine, prompts, quality: float) -> list[tuple[int, int]]:
    """Correct drafts of some answers, each beside what a drafter of that quality gets."""
    asked = [next(prompts) for _ in range(6)]
    return [(engine.generate(prompt, 41).drafts, sum(simulate(prompt[-1], 41, quality))) for prompt in asked]


def test_a_drafter_that_norms_before_its_residual_drafts_as_it_was_trained(slot: EngineSlot, prompts):
    engine = slot.use(Launch("norm-first"))
    assert "norm_before_residual" in engine.report().patches
    assert "takes its residual after its norm" in engine.log.read_text()
    for found, expected in correct_drafts(engine, prompts, 0.7):
        assert found == expected > 0


def test_the_same_weights_are_useless_where_the_residual_is_taken_before(
    engine: Engine, prompts, tmp_path: Path
):
    shape = DrafterShape(norm_before_residual=True)
    staged = engine.stage(drafter(tmp_path, shape, norm_before_residual=None), "norm-ignored")
    assert engine.order(Commit(stage=staged.number)).state == "done"
    for found, expected in correct_drafts(engine, prompts, 1.0):
        assert found == 0 < expected


def test_a_start_on_a_renamed_drafter_ends_before_any_request_and_names_the_tensors(renamed: Engine):
    wait_until_ended(renamed)
    report = start_report(renamed)
    assert not (renamed.run_dir / "scheduler-0.sock").exists()
    assert report.reason == "TensorsNotConsumed"
    assert report.load is not None
    assert "model.decoder.0.self_attn.q_proj.weight" in report.load.not_consumed
    assert "model.layers.0.self_attn.qkv_proj.weight" in report.load.not_fed
    # The log names the first few.
    assert "specdec refuses to start: TensorsNotConsumed" in renamed.log.read_text()
    assert "model.decoder.0." in renamed.log.read_text()
