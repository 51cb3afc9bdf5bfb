"""Public reports of drafters that failed in the field, each with its right verdict; and sound ones that must pass."""

from __future__ import annotations

import pytest
from tests.support.headers import (
    ABSENT,
    DRAFT_VOCABULARY,
    HIDDEN,
    VOCABULARY,
    kimi_k25,
    llama,
    mla,
    speculators,
)
from tests.support.judging import STOCK, arguments, codes, judged, repairs
from tests.support.public_faults import absolute

from specdec.preflight.arguments import rendered
from specdec.preflight.capabilities import TABLE, RateMeaning, capabilities
from specdec.preflight.facts import PLUGIN_PATCHES, Convention, Declared
from specdec.preflight.preflight import RepairMode

AUTO = {"repair": RepairMode.AUTO, "patches": PLUGIN_PATCHES}


# O-a01: names of the layer (speculators#358, #360).


def test_names_that_an_old_image_drops_block_and_the_random_parameters_are_counted():
    outcome = judged(llama().renamed("midlayer.", "layers.0."), "0.5.10.post1")
    finding = outcome.report.blocking[0]
    assert codes(outcome) == {"ParametersNotFed": "Error", "TensorsDropped": "Warning"}
    assert "no tensor for 10 parameters" in finding.found
    assert all(name in finding.found for name in ("q_proj", "k_proj", "v_proj", "and 7 more"))
    assert "rename layers.0.* to midlayer.*" in finding.hint


@pytest.mark.parametrize("version", ["0.5.10.post1", "0.5.23"])
def test_names_that_the_image_knows_pass(version):
    assert codes(judged(llama(), version)) == {}
    assert version != "0.5.23" or codes(judged(llama().renamed("midlayer.", "layers.0."), version)) == {}


# O-a02: ids at the top level (vllm#54526).


def top_level(ids, states=3):
    fixture = llama().with_config(eagle_config=ABSENT, eagle_aux_hidden_state_layer_ids=ids)
    return fixture.adding({"fc.weight": ("BF16", [HIDDEN, states * HIDDEN])})


def test_ids_at_the_top_level_block_and_say_what_would_be_captured():
    outcome = judged(top_level([1, 15, 40]))
    assert codes(outcome) == {"LayerIdsElsewhere": "Error"}
    assert "[1, 15, 40]" in outcome.report.blocking[0].found
    assert "[2, 30, 58]" in outcome.report.blocking[0].found


def test_four_ids_at_the_top_level_also_make_fc_too_wide():
    outcome = judged(top_level([2, 15, 30, 58], states=4))
    assert codes(outcome) == {"LayerIdsElsewhere": "Error", "FcWidthWrong": "Error"}
    assert "28672" in outcome.report.blocking[0].found
    assert "21504" in outcome.report.blocking[0].expected


@pytest.mark.parametrize(("ids", "states"), [([1, 15, 40], 3), ([2, 15, 30, 58], 4)])
def test_ids_at_the_top_level_are_copied_by_repair(ids, states):
    outcome = judged(top_level(ids, states), **AUTO)
    assert codes(outcome) == {}
    assert repairs(outcome) == ["LayerIdsElsewhere"]


# O-a03: a head that is declared and missing (sglang#27829).


def test_a_declared_head_that_is_missing_blocks():
    outcome = judged(mla().without("lm_head.weight"))
    assert codes(outcome) == {"HeadMissing": "Error"}
    assert "draft_vocab_size to null" in outcome.report.blocking[0].hint


def test_a_head_that_is_not_declared_is_borrowed():
    assert codes(judged(mla().without("lm_head.weight").with_config(draft_vocab_size=None))) == {}
    assert (
        codes(judged(llama().mapping(None).without("lm_head.weight").with_config(draft_vocab_size=None)))
        == {}
    )


# O-a04 to O-a07: the token map.


def test_a_small_vocabulary_without_a_map_blocks():
    outcome = judged(llama().mapping(None))
    assert codes(outcome) == {"TokenMapMissing": "Error"}
    assert "32000 < 163840" in outcome.report.blocking[0].expected


def test_a_map_without_marks_is_a_warning():
    assert codes(judged(llama().mapping([4 * index for index in range(DRAFT_VOCABULARY)]))) == {
        "TokenMarksMissing": "Warning"
    }


def changed_map(index, value):
    fixture = llama()
    offsets = list(fixture.d2t or ())
    offsets[index] = value
    return fixture.mapping(offsets, fixture.t2d)


def test_a_map_of_another_length_blocks():
    fixture = llama()
    outcome = judged(fixture.mapping((fixture.d2t or [])[:6054], fixture.t2d))
    assert codes(outcome)["TokenMapLengthWrong"] == "Error"
    assert "[6054]" in outcome.report.blocking[0].found


@pytest.mark.parametrize(
    ("index", "value", "said"), [(31999, 140000, "d2t[31999] = 140000 leads to 171999"), (5, -9, "d2t[5] = -9 leads to -4")]
)  # fmt: skip
def test_a_map_that_leaves_the_vocabulary_blocks_with_index_and_value(index, value, said):
    outcome = judged(changed_map(index, value))
    assert codes(outcome)["TokenMapOutOfRange"] == "Error"
    assert said in outcome.report.blocking[0].found


def test_two_draft_tokens_for_one_target_token_are_a_warning():
    assert codes(judged(changed_map(7, 4 * 6 - 1 + 0))) == {"TokenMapNotRising": "Warning"}


def test_absolute_ids_block_and_offsets_pass():
    assert codes(judged(absolute())) == {"TokenMapAbsolute": "Error"}
    assert codes(judged(llama())) == {}


def test_absolute_ids_are_mended_while_loading_where_the_plugin_runs():
    outcome = judged(absolute(), **AUTO)
    assert codes(outcome) == {}
    assert outcome.mended.overlay.to_json()["transforms"] == {"d2t": "absolute-to-offsets"}
    assert codes(judged(absolute(), "0.5.12", **AUTO))["TokenMapAbsolute"] == "Error"


def test_a_map_of_zeros_is_right_for_a_prefix_and_wrong_for_anything_else():
    prefix = b"\1" * DRAFT_VOCABULARY + b"\0" * (VOCABULARY - DRAFT_VOCABULARY)
    zeros = [0] * DRAFT_VOCABULARY
    assert codes(judged(llama().mapping(zeros, prefix))) == {}
    assert codes(judged(llama().mapping(zeros, llama().t2d))) == {"TokenMapDisagrees": "Error"}
    whole = llama().mapping([0] * VOCABULARY).with_config(draft_vocab_size=VOCABULARY)
    assert codes(judged(whole.adding({"lm_head.weight": ("BF16", [VOCABULARY, HIDDEN])}))) == {}


def test_a_whole_vocabulary_needs_no_map():
    whole = llama().mapping(None).with_config(draft_vocab_size=VOCABULARY)
    assert codes(judged(mla())) == {}
    assert codes(judged(whole.adding({"lm_head.weight": ("BF16", [VOCABULARY, HIDDEN])}))) == {}


def test_rope_may_be_flat_or_nested():
    nested = llama().with_config(
        rope_theta=ABSENT, rope_parameters={"rope_type": "default", "rope_theta": 1e6}
    )
    assert codes(judged(nested)) == {}


# O-a08: the drafter's context (sglang#6783).

OVERWRITE = {"SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN": "1"}


@pytest.mark.parametrize(
    "config",
    [
        {"max_position_embeddings": 2048},
        {
            "max_position_embeddings": 4096,
            "rope_scaling": {"factor": 32, "original_max_position_embeddings": 4096},
        },
    ],
)
def test_a_short_context_blocks_and_with_the_variable_warns(config):
    served = arguments("--context-length", "131072")
    outcome = judged(llama().with_config(**config), arguments=served)
    assert codes(outcome) == {"ContextTooShort": "Error"}
    assert f"{config['max_position_embeddings']} < 131072" in outcome.report.blocking[0].found
    overwritten = arguments("--context-length", "131072", **OVERWRITE)
    assert codes(judged(llama().with_config(**config), arguments=overwritten)) == {
        "ContextTooShort": "Warning"
    }


# O-a09, O-a10: which layers are captured.


def with_ids(*ids):
    eagle = {"use_aux_hidden_state": True, "eagle_aux_hidden_state_layer_ids": list(ids)}
    return llama().with_config(eagle_config=eagle)


def test_layer_minus_one_needs_the_patch():
    outcome = judged(with_ids(-1, 2, 30))
    assert codes(outcome) == {"EmbeddingNotCaptured": "Error"}
    assert "patch embedding_capture" in outcome.report.blocking[0].found
    patched = judged(with_ids(-1, 2, 30), patches=PLUGIN_PATCHES)
    assert codes(patched) == {}
    assert patched.report.resolved["capturedLayerInputs"] == [0, 2, 30]


def test_layer_minus_one_is_rewritten_when_it_is_known_what_the_ids_count():
    declared = Declared(convention=Convention.OUTPUT)
    outcome = judged(with_ids(-1, 2, 30), declared=declared, repair=RepairMode.AUTO)
    assert codes(outcome) == {}
    assert outcome.mended.case.drafter.nested_ids == (0, 3, 31)


@pytest.mark.parametrize(
    ("declared", "expected"),
    [((2, 30, 58), {}), ((20, 40, 60), {"LayersDiffer": "Error"}), (None, {"LayerIdsAbsent": "Warning"})],
)
def test_without_ids_the_engine_guesses_and_a_person_may_say(declared, expected):
    outcome = judged(llama().with_config(eagle_config=ABSENT), declared=Declared(layer_ids=declared))
    assert codes(outcome) == expected
    assert outcome.report.resolved["capturedLayerInputs"] == [2, 30, 58]


def test_the_same_ids_mean_one_layer_later_on_older_images():
    assert judged(llama(), "0.5.12").report.resolved["capturedLayerInputs"] == [3, 31, 59]
    assert judged(llama(), "0.5.13").report.resolved["capturedLayerInputs"] == [2, 30, 58]
    outcome = judged(llama(), "0.5.12", declared=Declared(convention=Convention.BOUNDARY))
    assert codes(outcome) == {"LayersDiffer": "Error"}
    assert "write [1, 29, 57]" in outcome.report.blocking[0].hint


# O-a11 to O-a13: precision, class, family.


def test_a_plain_drafter_must_not_inherit_the_targets_quantisation():
    target = kimi_k25()
    target.config["text_config"]["quantization_config"] = {"quant_method": "compressed-tensors"}
    assert codes(judged(llama(), target=target, arguments=arguments())) == {
        "QuantisationInherited": "Warning"
    }
    assert codes(judged(llama(), target=target, arguments=rendered())) == {}


def test_a_drafters_own_quantisation_is_shown():
    own = llama().with_config(quantization_config={"quant_method": "fp8"})
    assert judged(own).report.resolved["drafter"]["quantisation"] == "fp8"
    assert "quantisation" not in judged(llama()).report.resolved["drafter"]


def test_a_single_matrix_of_another_precision_is_a_warning():
    odd = llama().adding({"fc.weight": ("F32", [HIDDEN, 3 * HIDDEN])})
    assert codes(judged(odd)) == {"PrecisionMixed": "Warning"}


def test_latent_attention_needs_a_newer_image():
    outcome = judged(mla(), "0.5.11")
    assert codes(outcome)["ArchitectureTooNew"] == "Error"
    assert "0.5.12" in outcome.report.blocking[0].expected
    assert codes(judged(mla(), "0.5.12")) == {}


def test_speculators_layout_blocks_unconverted_and_its_sizes_are_read():
    outcome = judged(speculators())
    assert outcome.report.reason == "SpeculatorsNotConverted"
    assert "conversion" in outcome.report.blocking[0].hint
    assert outcome.report.resolved["drafter"]["hidden_size"] == HIDDEN


def test_speculators_layout_is_converted_by_repair():
    outcome = judged(speculators(), **AUTO)
    assert codes(outcome) == {}
    assert outcome.mended.case.drafter.nested_ids == (3, 31, 59)
    assert "target_hidden_size" not in outcome.mended.case.drafter.config


def test_a_drafter_of_a_sibling_is_a_warning():
    fixture = llama()
    fixture.card = "---\nlicense: mit\nbase_model: moonshotai/Kimi-K2-Instruct\n---\n"
    assert codes(judged(fixture)) == {"BaseModelDiffers": "Warning"}
    fixture.card = ""
    fixture.metadata = {"base_model": "moonshotai/Kimi-K2.5"}
    assert codes(judged(fixture)) == {}


# O-d01: the gauge's meaning is in the table.


def test_a_rate_of_one_fifth_is_known_to_mean_nothing_accepted_on_old_images():
    assert capabilities("0.5.10.post1").accept_rate is RateMeaning.WITH_BONUS
    assert {row.accept_rate for row in TABLE.values() if row.plugins} == {RateMeaning.STRICT}


# Four faults of one drafter in one week, on SGLang 0.5.9: accept length 1.00, "accept rate 0.20", no error.


def test_that_weeks_names_dropped_on_its_version():
    dropped = speculators().with_config(target_hidden_size=ABSENT)
    dropped.config = llama().config
    assert "ParametersNotFed" in codes(judged(dropped, "0.5.9"))


def test_that_week_no_capture_for_this_target():
    assert codes(judged(llama(), "0.5.9")) == {"TargetCannotCapture": "Error"}


def test_that_weeks_wrong_wiring_of_the_embedding():
    declared = Declared(layer_ids=(-1, 2, 30), convention=Convention.OUTPUT)
    outcome = judged(llama(), declared=declared)
    assert codes(outcome) == {"LayersDiffer": "Error"}
    assert "write [0, 3, 31]" in outcome.report.blocking[0].hint


def test_that_weeks_corrupted_token_map():
    assert codes(judged(absolute(), "0.5.9"))["TokenMapAbsolute"] == "Error"


# Sound public shapes: no error on any version that serves them.

SOUND = {
    "lightseekorg/kimi-k2.5-eagle3": llama(),
    "lightseekorg/kimi-k2.5-eagle3-mla": mla(),
    "kimi-k2.6-eagle3.1-mla": mla()
    .with_config(
        fc_norm=True, norm_output=True, eagle_config={"eagle_aux_hidden_state_layer_ids": [1, 29, 57]}
    )
    .adding({f"fc_norm.{index}.weight": ("BF16", [HIDDEN]) for index in range(3)}),
    "AQ-MedAI/Kimi-K25-eagle3": llama()
    .with_config(num_key_value_heads=64)
    .adding(
        {f"midlayer.self_attn.{name}_proj.weight": ("BF16", [8192, 2 * HIDDEN]) for name in "kv"}
        | {"embed_tokens.weight": ("BF16", [VOCABULARY, HIDDEN])}
    ),
    "nvidia/Kimi-K2.5-Thinking-Eagle3": mla().with_config(eagle_config=ABSENT),
    "k-l-lambda/kimi-k2.7-code-eagle3-mla": mla()
    .with_config(draft_vocab_size=DRAFT_VOCABULARY)
    .mapping(llama().d2t, llama().t2d)
    .adding({"lm_head.weight": ("BF16", [DRAFT_VOCABULARY, HIDDEN])}),
    "cm00cm/Kimi-K2.7-Code-EAGLE3": llama().with_config(
        eagle_config={"eagle_aux_hidden_state_layer_ids": [1, 29, 57]}
    ),
    "model. prefix": llama().renamed("midlayer.", "model.layers.0."),
}


@pytest.mark.parametrize("name", SOUND)
@pytest.mark.parametrize("version", [version for version, row in TABLE.items() if row.fc_norm])
def test_sound_public_drafters_raise_no_alarm(name, version):
    for asked in ({"patches": STOCK}, {"patches": PLUGIN_PATCHES}, AUTO):
        assert not judged(SOUND[name], version, **asked).report.blocking
