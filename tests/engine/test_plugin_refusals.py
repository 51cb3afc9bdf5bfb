"""Drafters that are refused while the old one goes on, bit for bit."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.engine import Engine, models
from tests.support.models import answer
from tests.support.models.broken import BUILDERS

pytestmark = pytest.mark.engine

REFUSALS = {
    "wrong_shape": ("ShapeMismatch", "norm.weight"),
    "not_finite": ("NotFinite", "fc.weight"),
    "missing_tensor": ("ParametersNotFed", "qkv_proj.weight (k)"),
    "no_token_map": ("ParametersNotFed", "d2t"),
    "other_dtype": ("DtypeDiffers", "fc.weight"),
    "absolute_token_map": ("TokenMapOutOfRange", "255"),
    "truncated": ("Unreadable", "model.safetensors"),
    "other_config": ("ConfigDiffers", "rope_theta"),
    "no_config": ("Unreadable", "config.json"),
}


def _serves_as_before(engine: Engine, prompts) -> None:
    prompt = next(prompts)
    generation = engine.generate(prompt, 41)
    assert generation.tokens == answer(prompt[-1], 41)
    assert (generation.calls, generation.drafts) == (10, 30)
    assert engine.report().revision == "good"


def test_every_way_to_break_a_drafter_is_tried():
    assert REFUSALS.keys() == BUILDERS.keys()


@pytest.mark.parametrize("fault", REFUSALS)
def test_a_broken_drafter_is_refused_by_name_and_the_old_one_serves(
    engine: Engine, prompts, tmp_path: Path, fault: str
):
    BUILDERS[fault](tmp_path / fault)
    outcome = engine.stage(tmp_path / fault, fault)
    reason, named = REFUSALS[fault]
    assert (outcome.state, outcome.reason) == ("refused", reason), outcome.message
    assert named in outcome.message
    _serves_as_before(engine, prompts)


def test_a_renamed_drafter_is_refused_with_all_that_it_lacks(engine: Engine, prompts):
    outcome = engine.stage(models()["renamed"], "renamed")
    assert (outcome.state, outcome.reason) == ("refused", "TensorsNotConsumed")
    assert "model.decoder.0." in outcome.message
    assert "model.layers.0.self_attn.qkv_proj.weight" in outcome.message
    _serves_as_before(engine, prompts)


def test_a_target_is_no_drafter(engine: Engine, prompts):
    outcome = engine.stage(models()["kimi"], "kimi")
    assert (outcome.state, outcome.reason) == ("refused", "ConfigDiffers")
    assert "architectures" in outcome.message
    _serves_as_before(engine, prompts)
