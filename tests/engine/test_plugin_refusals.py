"""The plugin alone, without the agent's checks before it: drafters are refused while the old one goes on, bit for bit."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.engine import Engine, models
from tests.support.models import answer
from tests.support.models.broken import BUILDERS, absolute_token_map

pytestmark = pytest.mark.engine

REFUSALS = {
    "wrong_shape": ("ShapeMismatch", "norm.weight"),
    "not_a_number": ("NotFinite", "fc.weight"),
    "infinite": ("NotFinite", "down_proj.weight"),
    "other_dtype": ("DtypeDiffers", "fc.weight"),
    "missing_tensor": ("ParametersNotFed", "qkv_proj.weight (k)"),
    "no_token_map": ("ParametersNotFed", "d2t"),
    "token_map_out_of_range": ("TokenMapOutOfRange", "259"),
    "token_map_of_floats": ("TokenMapDiffers", "float32"),
    "other_base": ("ConfigDiffers", "rope_theta"),
    "other_architecture": ("ConfigDiffers", "architectures"),
    "unknown_architecture": ("ConfigDiffers", "architectures"),
    "other_hidden_size": ("ConfigDiffers", "hidden_size"),
    "other_vocabulary": ("ConfigDiffers", "vocab_size"),
    "other_draft_vocabulary": ("ConfigDiffers", "draft_vocab_size"),
    "other_heads": ("ConfigDiffers", "head_dim"),
    "other_capture_layers": ("ConfigDiffers", "eagle_config"),
    "remote_code": ("ConfigDiffers", "auto_map"),
    "truncated": ("FileTruncated", "model.safetensors"),
    "trailing_bytes": ("TensorsMisplaced", "after its last tensor"),
    "zero_bytes": ("HeaderMalformed", "has 0 bytes"),
    "oversized_header": ("HeaderMalformed", "4611686018427387904"),
    "header_not_json": ("HeaderMalformed", "not JSON"),
    "header_not_utf8": ("HeaderMalformed", "not UTF-8"),
    "header_name_twice": ("TensorRepeated", "norm.weight twice"),
    "overlapping_tensors": ("TensorsMisplaced", "overlaps"),
    "negative_offset": ("HeaderMalformed", "offsets"),
    "unknown_type": ("DtypeUnknown", "PICKLE"),
    "shape_beyond_data": ("TensorSizeWrong", "1099511627776"),
    "index_without_map": ("IndexMalformed", "weight_map"),
    "index_names_missing_shard": ("FileMissing", "model-00002.safetensors"),
    "index_leads_outside": ("LinkOutsideFolder", "../good/model.safetensors"),
    "pickle": ("NoWeights", "no safetensors file"),
    "empty_folder": ("ConfigMissing", "config.json"),
    "config_outside": ("LinkOutsideFolder", "leads to"),
    "weights_are_a_folder": ("NotReadable", "model.safetensors"),
    "config_is_a_folder": ("ConfigMissing", "config.json"),
    "weights_are_a_pipe": ("NotReadable", "pipe"),
    "config_is_a_pipe": ("NotReadable", "pipe"),
    "weights_are_a_loop": ("NotReadable", "symbolic links"),
    "weights_dangle": ("FileMissing", "does not exist"),
    "config_cut": ("ConfigMalformed", "not JSON"),
    "config_of_no_object": ("ConfigMalformed", "holds a list"),
    "config_not_utf8": ("ConfigMalformed", "utf-8"),
    "config_empty": ("ConfigMalformed", "not JSON"),
    "config_nested": ("ConfigTooLarge", "nests"),
    "config_key_twice": ("ConfigMalformed", "hidden_size twice"),
}
AGENTS = {
    "weights_outside",
    "transposed",
    "integers",
    "missing_head",
    "extra_tensor",
    "second_layer",
    "token_map_negative",
    "token_map_short",
}
"""For the agent to see: an overlay's own links lead out of it, and headers tell the others as surely."""


def _serves_as_before(engine: Engine, prompts) -> None:
    prompt = next(prompts)
    generation = engine.generate(prompt, 41)
    assert generation.tokens == answer(prompt[-1], 41)
    assert (generation.calls, generation.drafts) == (10, 30)
    assert engine.report().revision == "good"


def test_every_way_to_break_a_drafter_is_tried():
    assert REFUSALS.keys() == BUILDERS.keys() - AGENTS


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


def test_a_map_that_only_the_agent_mends_is_refused(engine: Engine, prompts, tmp_path: Path):
    absolute_token_map(tmp_path / "absolute")
    outcome = engine.stage(tmp_path / "absolute", "absolute")
    assert (outcome.state, outcome.reason) == ("refused", "TokenMapOutOfRange"), outcome.message
    assert "255" in outcome.message
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
