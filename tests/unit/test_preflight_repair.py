"""What is mended without touching a weight, and what a converted copy holds."""

from __future__ import annotations

import json
import struct

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from tests.support.headers import ABSENT, HIDDEN, Tensors, llama, mla, speculators
from tests.support.judging import codes, judged, repairs

from specdec.preflight.convert import ConvertRefusedError, convert
from specdec.preflight.facts import PLUGIN_PATCHES, Convention, Declared
from specdec.preflight.finding import Severity
from specdec.preflight.loading import ABSOLUTE_TO_OFFSETS, Overlay, applied
from specdec.preflight.preflight import RepairMode, Request, preflight
from specdec.preflight.repair import Into
from specdec.preflight.source import LocalFolder, UnreadableError

AUTO = {"repair": RepairMode.AUTO, "patches": PLUGIN_PATCHES}


@pytest.mark.parametrize("prefix", ["module.", "_orig_mod.", "draft_model.", "module.model.", "eagle."])
def test_what_wrappers_leave_on_names_is_stripped_while_loading(prefix):
    wrapped = llama().renamed("", "")
    wrapped.tensors = {f"{prefix}{name}": kind for name, kind in wrapped.tensors.items()}
    outcome = judged(wrapped, **AUTO)
    assert codes(outcome) == {}
    assert outcome.mended.overlay.renames[f"{prefix}fc.weight"] == "fc.weight"


def test_the_mla_class_gets_names_without_model():
    outcome = judged(mla().renamed("layers.0.", "model.layers.0."), **AUTO)
    assert codes(outcome) == {}
    assert repairs(outcome) == ["ParametersNotFed"]


def test_names_that_nobody_knows_are_not_guessed():
    outcome = judged(llama().renamed("midlayer.", "model.decoder.0."), **AUTO)
    assert codes(outcome) == {"ParametersNotFed": "Error", "TensorsDropped": "Error"}
    assert repairs(outcome) == []


def test_renaming_is_not_offered_where_the_plugin_does_not_run():
    renamed = llama().renamed("midlayer.", "module.midlayer.")
    for version, patches in (("0.5.12", PLUGIN_PATCHES), ("0.5.23", frozenset()), ("0.5.99", PLUGIN_PATCHES)):
        outcome = judged(renamed, version, repair=RepairMode.AUTO, patches=patches)
        assert outcome.mended.overlay.empty
        assert outcome.report.exit_code == 1


def test_a_class_under_another_tools_name_is_named_as_sglang_does():
    outcome = judged(llama().with_config(architectures=["Eagle3LlamaForCausalLM"]), **AUTO)
    assert codes(outcome) == {}
    assert outcome.mended.case.drafter.architecture == "LlamaForCausalLMEagle3"


def test_draft_vocab_size_is_taken_from_the_head_or_set_to_null():
    own = judged(llama().with_config(draft_vocab_size=ABSENT), **AUTO)
    assert codes(own) == {}
    assert own.mended.case.drafter.config["draft_vocab_size"] == 32000
    none = judged(
        llama().mapping(None).without("lm_head.weight").with_config(draft_vocab_size=ABSENT), **AUTO
    )
    assert codes(none) == {}
    assert none.mended.case.drafter.config["draft_vocab_size"] is None


def test_norm_flags_follow_the_weights_where_the_version_knows_them():
    normed = llama().adding({"input_norm.weight": ("BF16", [3 * HIDDEN])})
    outcome = judged(normed, **AUTO)
    assert codes(outcome) == {}
    assert outcome.mended.case.drafter.config["norm_before_fc"] is True
    assert codes(judged(normed, "0.5.16", **AUTO))["NormFlagMissing"] == "Error"


def test_a_trained_window_becomes_an_argument():
    trained = llama().with_config(sliding_window=2048, layer_types=["sliding_attention"])
    outcome = judged(trained, **AUTO)
    assert codes(outcome) == {}
    assert outcome.mended.case.arguments.values["--speculative-draft-window-size"] == "2048"
    assert codes(judged(trained))["DraftWindowMissing"] == "Error"


def test_a_short_context_is_overwritten_and_stays_a_warning():
    outcome = judged(llama().with_config(max_position_embeddings=4096), **AUTO)
    assert codes(outcome) == {"ContextTooShort": Severity.WARNING.value}
    assert outcome.mended.case.arguments.environment == {"SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN": "1"}


def test_copies_of_the_targets_weights_are_left_out():
    copies: Tensors = {
        "verifier_norm.weight": ("BF16", [HIDDEN]),
        "verifier_lm_head.weight": ("BF16", [8, HIDDEN]),
    }
    outcome = judged(llama().adding(copies), **AUTO)
    assert codes(outcome) == {}
    assert set(outcome.mended.overlay.drops) == set(copies)


def with_ids(*ids):
    return llama().with_config(eagle_config={"eagle_aux_hidden_state_layer_ids": list(ids)})


@pytest.mark.parametrize(
    ("ids", "convention", "version", "written"),
    [
        ((2, 30, 58), Convention.OUTPUT, "0.5.23", (3, 31, 59)),
        ((2, 30, 58), Convention.BOUNDARY, "0.5.12", (1, 29, 57)),
        ((-1, 2, 30), Convention.OUTPUT, "0.5.14", (0, 3, 31)),
        ((1, 30, 58), Convention.BOUNDARY, "0.5.23", (30, 58, 1)),
        ((0, 2, 30), Convention.BOUNDARY, "0.5.23", (0, 2, 30)),
    ],
)
def test_ids_are_written_as_the_version_reads_them(ids, convention, version, written):
    outcome = judged(
        with_ids(*ids), version, declared=Declared(convention=convention), repair=RepairMode.AUTO
    )
    assert codes(outcome) == {}
    assert outcome.mended.case.drafter.nested_ids == written


def test_the_embedding_is_not_asked_of_a_version_that_can_not_capture_it():
    declared = Declared(convention=Convention.BOUNDARY)
    outcome = judged(with_ids(0, 2, 30), "0.5.13", declared=declared, repair=RepairMode.AUTO)
    assert codes(outcome) == {"EmbeddingNotCaptured": "Error"}


def test_newer_speculators_flags_arrive_at_the_top_level():
    fixture = speculators("0.9.0").with_config(
        norm_before_fc=True, norm_output=True, eagle_aux_hidden_state_layer_ids=[2, 30, 58]
    )
    fixture.config["transformer_layer_config"] |= {
        "sliding_window": 2048,
        "layer_types": ["sliding_attention"],
    }
    outcome = judged(fixture.adding({"input_norm.weight": ("BF16", [3 * HIDDEN])}), **AUTO)
    assert codes(outcome) == {}
    config = outcome.mended.case.drafter.config
    assert (config["norm_before_fc"], config["norm_output"]) == (True, True)
    assert outcome.mended.case.drafter.nested_ids == (2, 30, 58)
    assert outcome.mended.case.arguments.values["--speculative-draft-window-size"] == "2048"


def test_repair_is_done_once_its_result_needs_none():
    outcome = judged(speculators(), **AUTO)
    again = llama()
    again.config = dict(outcome.mended.case.drafter.config)
    assert repairs(judged(again, **AUTO)) == []


# Converting: a small drafter with real data.


def small(folder, d2t):
    """A drafter of 8 hidden units as speculators saves it, with numbered weights, in two files."""
    inner = {
        "model_type": "llama", "hidden_size": 8, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 4,
        "intermediate_size": 16, "vocab_size": 12, "num_hidden_layers": 1, "max_position_embeddings": 4096,
    }  # fmt: skip
    config = {"speculators_model_type": "eagle3", "speculators_version": "0.3.0", "draft_vocab_size": len(d2t),
              "transformer_layer_config": inner, "target_hidden_size": None}  # fmt: skip
    shapes = {
        "self_attn.q_proj": (8, 16), "self_attn.k_proj": (4, 16), "self_attn.v_proj": (4, 16), "self_attn.o_proj": (8, 8),
        "mlp.gate_proj": (16, 8), "mlp.up_proj": (16, 8), "mlp.down_proj": (8, 16), "input_layernorm": (8,),
        "hidden_norm": (8,), "post_attention_layernorm": (8,),
    }  # fmt: skip
    random = np.random.default_rng(3)
    layer = {f"layers.0.{name}.weight": random.random(shape, np.float32) for name, shape in shapes.items()}
    ends = {"fc.weight": random.random((8, 24), np.float32), "norm.weight": random.random(8, np.float32),
            "lm_head.weight": random.random((len(d2t), 8), np.float32), "d2t": np.array(d2t, np.int64),
            "t2d": np.isin(np.arange(12), [1, 4, 7, 9])}  # fmt: skip
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    save_file(layer, folder / "a.safetensors")
    save_file(ends, folder / "b.safetensors")
    placed = dict.fromkeys(layer, "a.safetensors") | dict.fromkeys(ends, "b.safetensors")
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": placed}))
    return layer, ends


def small_target(folder):
    folder.mkdir()
    text = {"hidden_size": 8, "num_hidden_layers": 12, "vocab_size": 12, "max_position_embeddings": 4096}
    config = {"architectures": ["DeepseekV3ForCausalLM"], **text}
    (folder / "config.json").write_text(json.dumps(config))
    save_file({"w": np.zeros(2, np.float32)}, folder / "model.safetensors")


def converting(tmp_path, version):
    request = Request(
        LocalFolder(tmp_path / "drafter"), LocalFolder(tmp_path / "target"), version, into=Into.FILES,
        patches=frozenset(),
    )  # fmt: skip
    return request.drafter, preflight(request)


@pytest.mark.parametrize(("version", "name"), [("0.5.11", "midlayer."), ("0.5.23", "layers.0.")])
def test_a_converted_copy_loads_with_the_real_library_and_passes_unrepaired(tmp_path, version, name):
    layer, ends = small(tmp_path / "drafter", [1, 4, 7, 9])
    small_target(tmp_path / "target")
    source, outcome = converting(tmp_path, version)
    assert not outcome.report.blocking
    convert(source, outcome.mended, tmp_path / "out")
    first, second = (
        load_file(tmp_path / "out" / "a.safetensors"),
        load_file(tmp_path / "out" / "b.safetensors"),
    )
    for old, weights in layer.items():
        np.testing.assert_array_equal(first[old.replace("layers.0.", name)], weights)
    np.testing.assert_array_equal(second["fc.weight"], ends["fc.weight"])
    assert second["d2t"].tolist() == [1, 3, 5, 6]
    again = Request(
        LocalFolder(tmp_path / "out"), LocalFolder(tmp_path / "target"), version, repair=RepairMode.NEVER,
        patches=frozenset(),
    )  # fmt: skip
    assert preflight(again).report.findings == ()


def test_converting_overwrites_nothing_and_leaves_the_source_alone(tmp_path):
    small(tmp_path / "drafter", [1, 4, 7, 9])
    small_target(tmp_path / "target")
    before = {path.name: path.read_bytes() for path in (tmp_path / "drafter").iterdir()}
    source, outcome = converting(tmp_path, "0.5.23")
    (tmp_path / "out").mkdir()
    with pytest.raises(ConvertRefusedError, match="exists"):
        convert(source, outcome.mended, tmp_path / "out")
    convert(source, outcome.mended, tmp_path / "other")
    assert {path.name: path.read_bytes() for path in (tmp_path / "drafter").iterdir()} == before


def test_a_copy_that_breaks_off_leaves_nothing_behind(tmp_path):
    small(tmp_path / "drafter", [1, 4, 7, 9])
    small_target(tmp_path / "target")
    source, outcome = converting(tmp_path, "0.5.23")

    class Broken(LocalFolder):
        def read(self, name, start, count):
            raise UnreadableError("NotReadable", "the volume went away", "a file", "try again")

    with pytest.raises(UnreadableError):
        convert(Broken(source.folder), outcome.mended, tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["drafter", "target"]


def test_a_file_that_shrinks_while_it_is_copied_is_refused(tmp_path):
    small(tmp_path / "drafter", [1, 4, 7, 9])
    small_target(tmp_path / "target")
    source, outcome = converting(tmp_path, "0.5.23")
    path = tmp_path / "drafter" / "a.safetensors"
    length = struct.unpack("<Q", path.read_bytes()[:8])[0]
    path.write_bytes(path.read_bytes()[: 8 + length + 16])
    with pytest.raises(ConvertRefusedError, match="changed under its path"):
        convert(source, outcome.mended, tmp_path / "out")
    assert not (tmp_path / "out").exists()


# Applying the rules while loading.


def test_rules_survive_their_file_and_do_to_tensors_what_the_checks_saw():
    absolute = llama().mapping([5 * index for index in range(32000)], llama().t2d)
    absolute.tensors = {f"module.{name}": kind for name, kind in absolute.tensors.items()}
    absolute.tensors["verifier_norm.weight"] = ("BF16", [HIDDEN])
    outcome = judged(absolute, **AUTO)
    assert codes(outcome) == {}
    rules = Overlay.from_json(json.loads(json.dumps(outcome.mended.overlay.to_json())))
    assert rules == outcome.mended.overlay
    read = [
        ("module.d2t", np.array([0, 5, 10])),
        ("verifier_norm.weight", np.zeros(2)),
        ("module.fc.weight", np.ones(1)),
    ]
    loaded = dict(applied(rules, read, {ABSOLUTE_TO_OFFSETS: lambda ids: ids - np.arange(len(ids))}))
    assert list(loaded) == ["d2t", "fc.weight"]
    assert loaded["d2t"].tolist() == [0, 4, 8]


def test_rules_of_a_newer_preflight_are_not_ignored():
    with pytest.raises(KeyError):
        list(applied(Overlay(transforms={"fc.weight": "rotate"}), [("fc.weight", np.ones(1))], {}))
