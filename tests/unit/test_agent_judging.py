from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from tests.support.models import make
from tests.support.models.broken import BUILDERS
from tests.support.models.mendable import DECLARED, SWAPPED, absolute_token_map, wrapped

from specdec.api.preflight import Preflight, PreflightMode
from specdec.engine.agent import judging
from specdec.engine.agent.staging import make_overlay
from specdec.engine.protocol import DrafterRef
from specdec.preflight.checkpoint import CheckpointRefusedError, read_config
from specdec.preflight.facts import LAYER_IDS
from specdec.preflight.preflight import RepairMode
from specdec.preflight.reading import Reading, read_drafter
from specdec.preflight.source import LocalFolder


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("models")
    make(root, ["kimi", "good", "renamed"])
    return root


def read(folder: Path) -> Reading:
    return read_drafter(LocalFolder(folder))


def around(models: Path, *argv: str, version: str = "0.5.23") -> judging.Surroundings:
    return judging.survey(models / "kimi", version, argv, {}, 3)


def test_a_good_drafter_passes_with_its_config_as_it_is(models):
    config = read_config(models / "good")
    found = judging.judged(read(models / "good"), around(models))
    assert (found.config, found.arguments, found.environment) == (config, (), {})


def test_no_header_of_the_target_is_opened(models, tmp_path):
    shutil.copytree(models / "kimi", tmp_path / "kimi")
    for shard in (tmp_path / "kimi").glob("*.safetensors"):
        shard.write_bytes(b"no header")
    surveyed = judging.survey(tmp_path / "kimi", "0.5.23", (), {}, 3)
    assert surveyed.target
    assert (surveyed.target.files, surveyed.target.tensors) == (1, None)
    assert not judging.judged(read(models / "good"), surveyed).report.blocking


def test_names_that_feed_nothing_are_refused_by_the_headers(models):
    with pytest.raises(CheckpointRefusedError) as caught:
        judging.judged(read(models / "renamed"), around(models))
    assert caught.value.reason == "ParametersNotFed"


@pytest.mark.parametrize(
    ("wish", "verdict"),
    [({"mode": "Warn"}, "Blocked"), ({"mode": "Off"}, None), ({"skipChecks": ["ParametersNotFed", "TensorsDropped"]}, "Passed")],
)  # fmt: skip
def test_the_spec_says_what_follows_from_a_finding(models, wish, verdict):
    found = judging.judged(read(models / "renamed"), around(models), Preflight.model_validate(wish))
    assert (found.report.verdict.value if found.report else None) == verdict


def test_repairs_are_made_in_every_mode_unless_nobody_may(models, tmp_path):
    state, mounted = tmp_path / "state", tmp_path / "models"
    drafter = DrafterRef(revision="r", version="v", path=str(mounted / "one"))
    wrapped(mounted / "one")
    for mode in PreflightMode:
        overlay = make_overlay(state, mounted, drafter, around(models), Preflight(mode=mode))
        assert (overlay.folder / "overlay.json").exists()
    never = Preflight(mode=PreflightMode.WARN, repair=RepairMode.NEVER)
    overlay = make_overlay(state, mounted, drafter, around(models), never)
    assert not (overlay.folder / "overlay.json").exists()
    assert overlay.repairs == ()
    with pytest.raises(judging.PreflightRefusedError) as caught:
        make_overlay(state, mounted, drafter, around(models), Preflight(repair=RepairMode.NEVER))
    assert caught.value.report.blocking


def test_files_that_cannot_be_linked_are_reported_as_well(models, tmp_path):
    mounted = tmp_path / "models"
    BUILDERS["truncated"](mounted / "one")
    drafter = DrafterRef(revision="r", version="v", path=str(mounted / "one"))
    with pytest.raises(judging.PreflightRefusedError) as caught:
        make_overlay(tmp_path / "state", mounted, drafter, around(models))
    assert caught.value.report.reason == "FileTruncated"


def test_what_is_wrong_without_a_drafter_is_not_the_drafters_fault(models):
    surroundings = around(models, "--enable-dp-attention", "--pp-size", "2")
    assert surroundings.known, "some finding of the arguments alone"
    judging.judged(read(models / "good"), surroundings)


def test_what_is_odd_without_a_drafter_is_not_said_of_the_drafter(models):
    surroundings = around(models, "--disable-cuda-graph")
    assert "GraphsSwitchedOff" in {finding.code for finding in surroundings.said}
    found = judging.judged(read(models / "good"), surroundings)
    assert found.report
    assert "GraphsSwitchedOff" not in {finding.code for finding in found.report.findings}


def test_a_version_that_nobody_knows_is_left_to_the_strict_load(models):
    judging.judged(read(models / "good"), around(models, version="99.0"))


def test_a_preflight_that_fails_refuses_nobody(models, monkeypatch, caplog):
    def explode(*_: object) -> None:
        raise RuntimeError("on purpose")

    surroundings = around(models)
    monkeypatch.setattr(judging, "judge", explode)
    config = read_config(models / "good")
    assert judging.judged(read(models / "good"), surroundings).config == config
    assert "served unjudged" in caplog.text


def test_repairs_reach_the_overlay_and_its_arguments(models, tmp_path):
    folder = tmp_path / "models" / "top"
    make(tmp_path / "models", ["good"])["good"].rename(folder)
    config = read_config(folder)
    config |= {"eagle_aux_hidden_state_layer_ids": [2, 4, 5], "max_position_embeddings": 256}
    (folder / "config.json").write_text(json.dumps(config))
    drafter = DrafterRef(revision="r", version="v", path=str(folder))
    surroundings = around(models, "--context-length", "512")
    overlay = make_overlay(tmp_path / "state", tmp_path / "models", drafter, surroundings)
    written = read_config(overlay.folder)
    assert written["eagle_config"]["eagle_aux_hidden_state_layer_ids"] == [2, 4, 5]
    assert overlay.repairs
    assert ("SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN", "1") in overlay.environment


def test_layers_that_a_person_names_are_written_into_the_overlay_and_said(models, tmp_path):
    state, mounted = tmp_path / "state", tmp_path / "models"
    for name, layers in DECLARED.items():
        SWAPPED[name].build(mounted / name)
        drafter = DrafterRef(revision="r", version="v", path=str(mounted / name), layers=layers)
        overlay = make_overlay(state, mounted, drafter, around(models))
        ids = read_config(overlay.folder)["eagle_config"]["eagle_aux_hidden_state_layer_ids"]
        assert ids == [3, 5, 6]
        assert "captures the inputs of layers [3, 5, 6]" in overlay.repairs[0]
        assert [one.code for one in overlay.report.repairs] == ["LayersDiffer"]
        with pytest.raises(judging.PreflightRefusedError) as caught:
            make_overlay(state, mounted, drafter, around(models), Preflight(repair=RepairMode.NEVER))
        assert caught.value.reason == "LayersDiffer"
        assert make_overlay(state, mounted, replaced(drafter, layers=None), around(models)).repairs == ()


def replaced(drafter: DrafterRef, **fields: object) -> DrafterRef:
    return drafter.model_copy(update=fields)


def test_repairs_while_loading_reach_the_overlays_rules(models, tmp_path):
    state, mounted = tmp_path / "state", tmp_path / "models"
    drafter = DrafterRef(revision="r", version="v", path=str(mounted / "one"))
    wrapped(mounted / "one")
    overlay = make_overlay(state, mounted, drafter, around(models))
    rules = json.loads((overlay.folder / "overlay.json").read_text())
    assert rules["renames"]["_orig_mod.draft_model.fc.weight"] == "fc.weight"
    absolute_token_map(mounted / "one")
    overlay = make_overlay(state, mounted, drafter, around(models))
    rules = json.loads((overlay.folder / "overlay.json").read_text())
    assert rules == {"renames": {}, "transforms": {"d2t": "absolute-to-offsets"}, "drops": []}
    # A sound drafter under the same name leaves no rules behind.
    make(mounted, ["good"])["good"].rename(mounted / "two")
    make_overlay(
        state, mounted, DrafterRef(revision="r", version="v", path=str(mounted / "two")), around(models)
    )
    (mounted / "two" / "model.safetensors").rename(mounted / "one" / "model.safetensors")
    overlay = make_overlay(state, mounted, drafter, around(models))
    assert not (overlay.folder / "overlay.json").exists()


def written(folder: Path, **config: object) -> DrafterRef:
    """Give a drafter's folder another config."""
    (folder / "config.json").write_text(json.dumps({**read_config(folder), **config}))
    return DrafterRef(revision="r", version="v", path=str(folder))


@pytest.mark.parametrize("nested", [{}, {"eagle_config": {LAYER_IDS: None}}, {"eagle_config": None}])
def test_layer_ids_that_are_nowhere_else_are_moved_by_the_repair_that_was_judged(models, tmp_path, nested):
    folder = make(tmp_path / "models", ["good"])["good"]
    drafter = written(folder, **{LAYER_IDS: [2, 4, 5]}, **nested)
    overlay = make_overlay(tmp_path / "state", tmp_path / "models", drafter, around(models))
    assert read_config(overlay.folder)["eagle_config"] == {LAYER_IDS: [2, 4, 5]}
    assert [one.code for one in overlay.report.repairs] == ["LayerIdsElsewhere"]
    assert len(overlay.repairs) == 1
    never = Preflight(mode=PreflightMode.WARN, repair=RepairMode.NEVER)
    unmoved = make_overlay(tmp_path / "state", tmp_path / "models", drafter, around(models), never)
    assert read_config(unmoved.folder) == read_config(folder)
    assert "LayerIdsElsewhere" in {finding.code for finding in unmoved.report.findings}


def test_a_config_is_written_as_it_was_judged(models, tmp_path):
    folder = make(tmp_path / "models", ["good"])["good"]
    config = read_config(folder)
    drafter = written(folder, **{LAYER_IDS: "all", "transformers_version": "5"})
    warn = Preflight(mode=PreflightMode.WARN)
    overlay = make_overlay(tmp_path / "state", tmp_path / "models", drafter, around(models), warn)
    assert read_config(overlay.folder) == {**config, LAYER_IDS: "all"}


def test_a_drafters_folder_is_read_once(models, tmp_path, monkeypatch):
    folder = make(tmp_path / "models", ["good"])["good"]
    drafter, surroundings, opened = written(folder), around(models), []
    read_whole = LocalFolder.read

    def noted(self: LocalFolder, name: str, start: int, count: int) -> bytes:
        opened.append((name, start))
        return read_whole(self, name, start, count)

    monkeypatch.setattr(LocalFolder, "read", noted)
    make_overlay(tmp_path / "state", tmp_path / "models", drafter, surroundings)
    assert ("config.json", 0) in opened
    assert len(opened) == len(set(opened))
