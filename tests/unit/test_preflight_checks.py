"""Each check by the smallest change of a sound drafter that it is for, and nothing else is blamed."""

from __future__ import annotations

import pytest
from tests.support.headers import (
    ABSENT,
    DRAFT_VOCABULARY,
    HIDDEN,
    VOCABULARY,
    Tensors,
    llama,
    mla,
    speculators,
)
from tests.support.judging import codes, judged

from specdec.preflight.checks import CHECKS
from specdec.preflight.facts import PLUGIN_PATCHES
from specdec.preflight.layout import Layout, recognise
from specdec.preflight.preflight import RepairMode

IDS = "eagle_aux_hidden_state_layer_ids"


def eagle(**keys):
    return llama().with_config(eagle_config={IDS: [2, 30, 58], **keys})


def norms(*names: str, width: int = HIDDEN) -> Tensors:
    return {f"{name}.weight": ("BF16", [width]) for name in names}


def quantised():
    return mla().adding({"layers.0.self_attn.kv_b_proj.weight": ("F8_E4M3", [64 * 256, 512])})


ALONE = [
    ("FormatUnsupported", llama().with_config(architectures=["DFlashDraftModel"]), "0.5.23", "Error"),
    ("FormatUnsupported", llama().with_config(architectures=["LlamaForCausalLMEagle"]), "0.5.23", "Error"),
    ("FormatUnsupported", llama().with_config(architectures=[]), "0.5.23", "Error"),
    ("ConfigIncomplete", llama().with_config(hidden_size=ABSENT), "0.5.23", "Error"),
    ("ConfigIncomplete", mla().with_config(q_lora_rank=None), "0.5.23", "Error"),
    ("ShapesDiffer", llama().with_config(intermediate_size=18431), "0.5.23", "Error"),
    ("ShapesDiffer", llama().with_config(num_key_value_heads=64), "0.5.23", "Error"),
    ("FcWidthWrong", llama().adding({"fc.weight": ("BF16", [HIDDEN, 4 * HIDDEN])}), "0.5.23", "Error"),
    ("DraftVocabularyUndeclared", llama().mapping(None).without("lm_head.weight").with_config(draft_vocab_size=ABSENT),
     "0.5.23", "Error"),
    ("HeadRowsWrong", llama().adding({"lm_head.weight": ("BF16", [DRAFT_VOCABULARY + 1, HIDDEN])}), "0.5.23", "Error"),
    ("WeightsNotFloat", quantised(), "0.5.23", "Error"),
    ("EmbeddingReplaced", llama().with_config(embed_requires_grad=True), "0.5.23", "Warning"),
    ("LayerIdsDisagree", llama().with_config(**{IDS: [1, 2, 3]}), "0.5.23", "Warning"),
    ("LayerIdsMalformed", eagle(**{IDS: [58, 30, 2]}), "0.5.23", "Error"),
    ("LayerIdsMalformed", eagle(**{IDS: [2, 2, 30]}), "0.5.23", "Error"),
    ("LayerIdsMalformed", eagle(**{IDS: "2,30,58"}), "0.5.23", "Error"),
    ("LayerIdsOutOfRange", eagle(**{IDS: [2, 30, 61]}), "0.5.23", "Error"),
    ("LayerIdsOutOfRange", eagle(**{IDS: [2, 30, 60]}), "0.5.12", "Error"),
    ("LayerIdsOutOfRange", eagle(**{IDS: [-2, 30, 58]}), "0.5.23", "Error"),
    ("EmbeddingNotCaptured", eagle(**{IDS: [0, 2, 30]}), "0.5.13", "Error"),
    ("EmbeddingNotCaptured", eagle(**{IDS: [-1, 2, 30]}), "0.5.12", "Error"),
    ("CaptureSwitchedOff", eagle(use_aux_hidden_state=False), "0.5.23", "Error"),
    ("TargetHiddenSizeNull", llama().with_config(target_hidden_size=None), "0.5.23", "Error"),
    ("NormBeforeFcUnsupported", mla().with_config(norm_before_fc=True), "0.5.23", "Error"),
    ("NormBeforeFcUnsupported", llama().with_config(norm_before_fc=True), "0.5.16", "Error"),
    ("FcNormUnsupported", llama().with_config(fc_norm=True), "0.5.11", "Error"),
    ("NormOutputUnsupported", llama().with_config(norm_output=True), "0.5.11", "Error"),
    ("NormOutputAmbiguous", llama().with_config(norm_output=True, generator="SpecForge 0.2.0"), "0.5.23", "Warning"),
    ("NormBeforeResidual", llama().with_config(norm_before_residual=True), "0.5.23", "Error"),
    ("HeadMissing", llama().without("lm_head.weight"), "0.5.23", "Error"),
    ("VocabularyDiffers", mla().with_config(vocab_size=VOCABULARY + 64), "0.5.23", "Error"),
    ("TooManyLayers", mla().with_config(num_hidden_layers=2), "0.5.23", "Error"),
    ("ContextTooShort", llama().with_config(max_position_embeddings=131072), "0.5.23", "Error"),
]  # fmt: skip


NOT_ALONE = {
    "ParametersNotFed",
    "TokenMapLengthWrong",
    "TokenMapMissing",
    "CaptureCountWrong",
    "LayersDiffer",
}
"""Faults that other faults bring along."""


@pytest.mark.parametrize(("code", "drafter", "version", "severity"), ALONE)
def test_a_fault_is_blamed_by_its_name_and_nothing_unrelated_with_it(code, drafter, version, severity):
    found = codes(judged(drafter, version))
    assert found[code] == severity
    assert set(found) <= {code} | NOT_ALONE


def test_a_declared_count_of_states_must_be_that_of_the_ids():
    wide = llama().with_config(num_aux_hidden_states=4).adding({"fc.weight": ("BF16", [HIDDEN, 4 * HIDDEN])})
    assert codes(judged(wide)) == {"CaptureCountWrong": "Error"}


def test_a_tied_head_needs_the_whole_vocabulary():
    tied = llama().without("lm_head.weight").with_config(tie_word_embeddings=True)
    assert codes(judged(tied)) == {"HeadTied": "Error"}


@pytest.mark.parametrize("name", ["midlayer.self_attn.q_norm.weight", "midlayer.self_attn.q_proj.bias"])
def test_trained_parts_that_the_class_has_not_block_even_on_stock_sglang(name):
    outcome = judged(llama().adding({name: ("BF16", [128])}))
    assert codes(outcome) == {"TensorsDropped": "Error"}


def test_a_stray_tensor_is_a_warning_on_stock_and_blocks_under_strict_loading():
    stray = llama().adding({"ema.step": ("I64", [1])})
    assert codes(judged(stray)) == {"TensorsDropped": "Warning"}
    assert codes(judged(stray, patches=PLUGIN_PATCHES)) == {"TensorsDropped": "Error"}


def test_the_plugin_takes_the_residual_after_the_norm_but_not_in_the_mla_class():
    trained = {"norm_before_residual": True}
    assert codes(judged(llama().with_config(**trained))) == {"NormBeforeResidual": "Error"}
    assert codes(judged(llama().with_config(**trained), patches=PLUGIN_PATCHES)) == {}
    older = codes(judged(llama().with_config(**trained), "0.5.12", patches=PLUGIN_PATCHES))
    assert older["NormBeforeResidual"] == "Error"
    assert codes(judged(mla().with_config(**trained), patches=PLUGIN_PATCHES)) == {
        "NormBeforeResidual": "Error"
    }


def test_computed_buffers_and_the_shared_embedding_are_no_strays():
    usual: Tensors = {
        "midlayer.self_attn.rotary_emb.inv_freq": ("F32", [64]),
        "embed_tokens.weight": ("BF16", [VOCABULARY, HIDDEN]),
    }
    assert codes(judged(llama().adding(usual), patches=PLUGIN_PATCHES)) == {}


def test_an_engine_that_the_operator_does_not_run_is_said():
    assert codes(judged(llama(), "0.5.12", patches=PLUGIN_PATCHES)) == {"EngineNotServed": "Warning"}


@pytest.mark.parametrize(
    ("config", "names", "layout"),
    [
        ({"speculators_model_type": "eagle3", "speculators_version": "0.4.1"}, [], Layout.SPECULATORS_OLD),
        ({"speculators_model_type": "eagle3", "speculators_version": "0.9.0"}, [], Layout.SPECULATORS),
        ({"speculators_model_type": "eagle3", IDS: [2, 30, 58]}, [], Layout.SPECULATORS),
        ({"speculators_model_type": "eagle"}, [], Layout.EAGLE12),
        ({"speculators_model_type": "dflash"}, [], Layout.DFLASH),
        ({"speculators_model_type": "peagle"}, [], Layout.P_EAGLE),
        ({"speculators_model_type": "mtp"}, [], Layout.MTP),
        ({"speculators_model_type": "dspark"}, [], Layout.DSPARK),
        ({"architectures": ["DeepseekV3ForCausalLMNextN"]}, [], Layout.MTP),
        ({"architectures": ["LlamaForCausalLMEagle"]}, [], Layout.EAGLE12),
        ({"architectures": ["MedusaModel"]}, [], Layout.MEDUSA),
        ({"architectures": ["LlamaForCausalLM"]}, ["model.layers.0.mlp.up_proj.weight"], Layout.UNKNOWN),
        ({"architectures": ["LlamaForCausalLM"]}, ["fc.weight", "midlayer.hidden_norm.weight"], Layout.MISNAMED),
        ({"architectures": ["Eagle3LlamaForCausalLM"]}, ["fc.weight", "midlayer.hidden_norm.weight"], Layout.MISNAMED),
        ({"architectures": ["LlamaForCausalLMEagle3"], "generator": "specforge"}, [], Layout.SPECFORGE),
        ({"architectures": "nonsense"}, [], Layout.UNKNOWN),
    ],
)  # fmt: skip
def test_formats_are_recognised(config, names, layout):
    assert recognise(config, names, {}) is layout


def test_an_unconverted_folder_of_another_kind_says_which():
    other = speculators()
    other.config["speculators_model_type"] = "dflash"
    outcome = judged(other)
    assert "DFlash" in outcome.report.blocking[0].found


SOUND = {"llama": llama(), "mla": mla(), "speculators": speculators()}
MEANT_TO_BE_ABSENT = {"t2d", "embed_tokens.weight"}
EACH = [
    (kind, name)
    for kind, fixture in SOUND.items()
    for name in fixture.tensors
    if name not in MEANT_TO_BE_ABSENT
]


@pytest.mark.parametrize(("kind", "name"), EACH)
def test_no_tensor_can_be_lost_misnamed_or_resized_unnoticed(kind, name):
    asked = {"repair": RepairMode.AUTO, "patches": PLUGIN_PATCHES}
    fixture = SOUND[kind]
    dtype, shape = fixture.tensors[name]
    if name != "d2t":
        resized = fixture.adding({name: (dtype, [shape[0] - 1, *shape[1:]])})
        assert judged(resized, **asked).report.blocking
    if name.endswith("d2t"):
        fixture = fixture.mapping(None, fixture.t2d)
    assert judged(fixture.without(name), **asked).report.blocking
    other = fixture.without(name).adding({f"x_{name}": (dtype, shape)})
    assert judged(other, **asked).report.blocking


def test_every_check_is_in_the_reference_order_once():
    assert len({check.code for check in CHECKS}) == len(CHECKS)
