"""Drafters with faults that need no change of weights: the real engine serves them as well as a sound one.

Either converted, or as they are, with the agent's overlay in between: at the start and by a swap.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.engine import Engine, EngineSlot, Launch, models
from tests.support.models import answer, drafter, expected_accept_length, simulate
from tests.support.models.mendable import BUILDERS, as_speculators_saves_it

from specdec.engine.agent.judging import survey
from specdec.engine.agent.staging import Overlay, make_overlay
from specdec.engine.loopback import Commit
from specdec.engine.protocol import DrafterRef
from specdec.preflight.convert import convert
from specdec.preflight.preflight import RepairMode, Request, preflight
from specdec.preflight.repair import Into
from specdec.preflight.source import LocalFolder

pytestmark = pytest.mark.engine

VERSION = "0.5.23"
TOKENS = 41
QUALITY = 0.7


def asked(drafter_folder: Path, **options) -> Request:
    return Request(LocalFolder(drafter_folder), LocalFolder(models()["kimi"]), VERSION, **options)


def overlay_of(folder: Path, state: Path) -> Overlay:
    """Judge and link a drafter as the agent does before every start and swap."""
    around = survey(models()["kimi"], VERSION, (), {}, 3)
    reference = DrafterRef(revision=folder.name, version="v", path=str(folder))
    return make_overlay(state, folder.parent, reference, around)


def check_acceptance(engine: Engine, prompts: Iterator[list[int]], quality: float = QUALITY) -> None:
    """Each answer has exactly the correct drafts that its quality computes, and not those of a perfect one."""
    calls = drafts = 0
    for _ in range(8):
        prompt = next(prompts)
        generation = engine.generate(prompt, TOKENS)
        assert generation.tokens == answer(prompt[-1], TOKENS)
        assert generation.drafts == sum(simulate(prompt[-1], TOKENS, quality))
        calls, drafts = calls + generation.calls, drafts + generation.drafts
    assert 1 + drafts / calls == pytest.approx(expected_accept_length(quality), abs=0.4)


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
    check_acceptance(slot.use(Launch("mended")), prompts)


def test_the_same_drafter_is_mended_while_it_loads_at_the_start(slot: EngineSlot, prompts, tmp_path: Path):
    as_speculators_saves_it(tmp_path / "source")
    before = (tmp_path / "source" / "model.safetensors").read_bytes()
    models()["overlaid"] = overlay_of(tmp_path / "source", tmp_path / "state").folder
    engine = slot.use(Launch("overlaid"))
    assert "overlay" in engine.report().patches
    assert "overlay.json: 15 renames, 1 transforms, 0 drops" in engine.log.read_text()
    check_acceptance(engine, prompts)
    assert (tmp_path / "source" / "model.safetensors").read_bytes() == before


@pytest.mark.parametrize("name", BUILDERS)
def test_a_drafter_is_mended_while_it_is_swapped_in(engine: Engine, prompts, tmp_path: Path, name: str):
    BUILDERS[name](tmp_path / name, QUALITY)
    # Without its overlay the plugin refuses it, so the overlay is what makes it serve.
    assert engine.stage(tmp_path / name, name).state == "refused"
    overlay = overlay_of(tmp_path / name, tmp_path / "state")
    assert overlay.repairs
    staged = engine.stage(overlay.folder, name)
    assert staged.state == "done", staged.message
    assert engine.order(Commit(stage=staged.number)).state == "done"
    check_acceptance(engine, prompts)


def test_rules_that_the_plugin_does_not_know_refuse_the_drafter(engine: Engine, prompts, tmp_path: Path):
    drafter(tmp_path)
    (tmp_path / "overlay.json").write_text('{"renames": {}, "transforms": {"d2t": "rotate"}, "drops": []}')
    outcome = engine.stage(tmp_path, "newer")
    assert (outcome.state, outcome.reason) == ("refused", "OverlayUnknown")
    (tmp_path / "overlay.json").write_text("[]")
    assert engine.stage(tmp_path, "broken").reason == "Unreadable"
    check_acceptance(engine, prompts, 1.0)
