"""A drafter with every fault that needs no change of weights, converted: the real engine serves it as well as a sound one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from safetensors.numpy import load_file, save_file
from tests.support.engine import EngineSlot, Launch, models
from tests.support.models import DrafterShape, answer, drafter, expected_accept_length, simulate
from tests.support.models.codes import DEFAULT_CAPTURE

from specdec.preflight.convert import convert
from specdec.preflight.preflight import RepairMode, Request, preflight
from specdec.preflight.repair import Into
from specdec.preflight.source import LocalFolder

pytestmark = pytest.mark.engine

VERSION = "0.5.23"
TOKENS = 41


def as_speculators_saves_it(folder: Path) -> None:
    """Nest the config, wrap the names, and leave absolute ids in d2t."""
    drafter(folder, DrafterShape(quality=0.7, prefix="layers.0", absolute_token_map=True))
    flat = json.loads((folder / "config.json").read_text())
    config = {
        "architectures": ["Eagle3Speculator"], "speculators_model_type": "eagle3", "speculators_version": "0.9.0",
        "draft_vocab_size": flat.pop("draft_vocab_size"), "target_hidden_size": None, "norm_before_residual": False,
        "eagle_aux_hidden_state_layer_ids": list(DEFAULT_CAPTURE), "transformer_layer_config": flat,
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))
    path = folder / "model.safetensors"
    tensors = load_file(path)
    save_file({f"module.{name}": tensor for name, tensor in tensors.items()}, path)


def asked(drafter_folder: Path, **options) -> Request:
    return Request(LocalFolder(drafter_folder), LocalFolder(models()["kimi"]), VERSION, **options)


def test_a_converted_drafter_reaches_its_computed_acceptance(slot: EngineSlot, prompts, tmp_path: Path):
    source, mended = tmp_path / "source", tmp_path / "mended"
    as_speculators_saves_it(source)
    outcome = preflight(asked(source, into=Into.FILES))
    assert outcome.report.blocking == ()
    assert {repair.code for repair in outcome.report.repairs} == {
        "SpeculatorsNotConverted", "ParametersNotFed", "LayersDiffer", "TokenMapAbsolute"
    }  # fmt: skip
    convert(LocalFolder(source), outcome.mended, mended)
    assert preflight(asked(mended, repair=RepairMode.NEVER)).report.findings == ()

    models()["mended"] = mended
    engine = slot.use(Launch("mended"))
    calls = drafts = 0
    for _ in range(8):
        prompt = next(prompts)
        generation = engine.generate(prompt, TOKENS)
        assert generation.tokens == answer(prompt[-1], TOKENS)
        assert generation.drafts == sum(simulate(prompt[-1], TOKENS, 0.7))
        calls, drafts = calls + generation.calls, drafts + generation.drafts
    assert 1 + drafts / calls == pytest.approx(expected_accept_length(0.7), abs=0.4)
