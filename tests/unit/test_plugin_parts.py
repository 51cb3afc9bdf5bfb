"""Small pure parts of the plugin: config comparison, capture ids, files, settings, hooks."""

from __future__ import annotations

import json
import math
import sys
import types
from pathlib import Path

import pytest

from specdec.engine import loopback
from specdec.engine.plugin import hooks, refusal, settings, shadow
from specdec.engine.plugin.checkpoint import read_config, tensors, weight_files
from specdec.engine.plugin.config_keys import differing_key, value_of
from specdec.engine.plugin.embedding_capture import with_embedding
from specdec.engine.plugin.hooks import Hook, Patch, PatchNotApplicableError
from specdec.engine.protocol import NOT_THE_DRAFTERS, NOT_THERE, Drafting


def test_configs_are_compared_key_by_key():
    serving = {"a": 1, "eagle_config": {"ids": [1, 2], "x": True}, "transformers_version": "4"}
    assert differing_key(serving, {**serving, "transformers_version": "5", "absent": None}) == ""
    assert differing_key(serving, {**serving, "a": 2}) == "a"
    assert differing_key(serving, {**serving, "b": 2}) == "b"
    assert differing_key(serving, {**serving, "eagle_config": {"ids": [1], "x": True}}) == "eagle_config.ids"
    assert differing_key(serving, {"a": 1}) == "eagle_config"
    assert value_of(serving, "eagle_config.ids") == [1, 2]
    assert value_of(serving, "b") is None


@pytest.mark.parametrize(
    ("asked", "captured", "expected"),
    [([-1, 2, 5], [2, 5], [0, 2, 5]), ([-1, 1, 5], [2, 6], [0, 2, 6]), ([2, -1, 5], [2, 5], [2, 0, 5])],
)
def test_the_embedding_takes_its_place_among_the_ids_that_sglang_read(
    asked: list[int], captured: list[int], expected: list[int]
):
    assert with_embedding(asked, captured) == expected


def test_an_index_decides_which_files_hold_tensors(tmp_path: Path):
    for name in ("a.safetensors", "b.safetensors"):
        (tmp_path / name).touch()
    assert [path.name for path in weight_files(tmp_path)] == ["a.safetensors", "b.safetensors"]
    index = {"weight_map": {"x": "b.safetensors", "y": "b.safetensors"}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    assert [path.name for path in weight_files(tmp_path)] == ["b.safetensors"]


@pytest.mark.parametrize(
    ("content", "reason"), [(None, "ConfigMissing"), ("{", "ConfigMalformed"), ("[]", "ConfigMalformed")]
)
def test_a_folder_is_refused_for_what_the_preflight_would_say(
    tmp_path: Path, content: str | None, reason: str
):
    if content is not None:
        (tmp_path / "config.json").write_text(content)
    with pytest.raises(refusal.RefusedError) as refused:
        read_config(tmp_path)
    assert refused.value.reason == reason
    with pytest.raises(refusal.RefusedError) as refused:
        weight_files(tmp_path)
    assert refused.value.reason == "NoWeights"


@pytest.mark.parametrize(
    ("leads_to", "reason"), [("nowhere", "FileMissing"), ("x.safetensors", "NotReadable")]
)
def test_a_volumes_fault_keeps_its_name(tmp_path: Path, leads_to: str, reason: str):
    (tmp_path / "x.safetensors").symlink_to(leads_to)
    with pytest.raises(refusal.RefusedError) as refused:
        list(tensors(tmp_path))
    assert refused.value.reason == reason
    assert reason in NOT_THE_DRAFTERS | NOT_THERE


def test_without_an_agent_the_plugin_does_nothing():
    assert settings.read({}) is None


def test_an_incomplete_environment_ends_the_process():
    with pytest.raises(SystemExit, match="SPECDEC_SECRET"):
        settings.read({loopback.RUN_DIR: "/run"})


def test_the_environment_is_read():
    found = settings.read(
        {
            loopback.RUN_DIR: "/run/x",
            loopback.SECRET: "s",
            loopback.PROBE_PREFIX: "p",
            loopback.REVISION: "r",
            loopback.DRAFTING: "Off",
        }
    )
    assert found == settings.Settings(Path("/run/x"), "s", "r", "p", Drafting.OFF)


def test_a_refused_start_leaves_its_reason_and_ends_the_process(tmp_path: Path):
    with pytest.raises(SystemExit, match="Unsupported: no way"):
        refusal.refuse_start(tmp_path, "Unsupported", "no way")
    written = loopback.StartReport.model_validate_json((tmp_path / loopback.START_REPORT).read_bytes())
    assert (written.reason, written.message) == ("Unsupported", "no way")


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Stand in for SGLang's registry: remembers the targets."""
    registered: list[str] = []
    module = types.ModuleType("sglang.srt.plugins.hook_registry")
    kind = types.SimpleNamespace(AROUND="around")
    module.HookRegistry = types.SimpleNamespace(  # type: ignore[attr-defined]
        register=lambda target, _hook, _kind: registered.append(target)
    )
    module.HookType = kind  # type: ignore[attr-defined]
    for name in ("sglang", "sglang.srt", "sglang.srt.plugins"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return registered


@pytest.mark.parametrize(
    "missing",
    [
        Hook("json.no_such_function", print, ()),
        Hook("no_such_module.function", print, ()),
        Hook("json.loads", print, ("no_such_parameter",)),
    ],
)
def test_one_hook_that_does_not_fit_keeps_all_from_being_registered(registry: list[str], missing: Hook):
    fitting = Patch("fitting", (Hook("json.dumps", print, ("obj",)),))
    with pytest.raises(PatchNotApplicableError, match="patch other"):
        hooks.register([fitting, Patch("other", (missing,))])
    assert registry == []


def test_a_patch_is_in_force_once_its_target_is_another(registry: list[str], monkeypatch: pytest.MonkeyPatch):
    patch = Patch("fitting", (Hook("math.floor", print, ()),))
    hooks.register([patch])
    assert registry == ["math.floor"]
    assert not hooks.in_force(patch)
    monkeypatch.setattr(math, "floor", math.ceil)
    assert hooks.in_force(patch)


def test_a_quantised_drafter_is_not_swapped_in_place(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "torch", types.ModuleType("torch"))
    drafter = type("LlamaForCausalLMEagle3", (), {"quant_config": object()})()
    with pytest.raises(refusal.RefusedError, match="a quantised drafter can't be swapped in place"):
        shadow.check(drafter)
