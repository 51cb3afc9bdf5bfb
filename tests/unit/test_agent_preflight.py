"""`specdec-agent preflight`: one JSON message for what a start would meet, within Kubernetes' 4096 bytes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.support.models import make
from tests.support.models.mendable import ids_of_outputs, layers_0

from specdec.api.drafter import Layers
from specdec.api.preflight import Preflight
from specdec.engine.agent import preflight as subject
from specdec.engine.protocol import DrafterRef, LaunchPlan, PreflightResult
from specdec.preflight.facts import Convention
from specdec.preflight.report import Report, Verdict, expanded


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("models")
    make(root, ["kimi", "good", "renamed"])
    layers_0(root / "layers-0")
    ids_of_outputs(root / "outputs")
    return root


def run(
    models: Path,
    tmp_path: Path,
    drafter: str,
    target: str = "kimi",
    layers: Layers | None = None,
    **wish: Any,
) -> tuple[int, str]:
    profile = tmp_path / "engine.json"
    profile.write_text(json.dumps({"version": "0.5.23", "platform": "cpu"}))
    plan = LaunchPlan(
        assignment=0, server="a/b", revision="b-1", target_path=str(models / target), served_name="b",
        drafter=DrafterRef(revision="b-1", version="v", path=str(models / drafter), layers=layers),
        preflight=Preflight.model_validate(wish),
    )  # fmt: skip
    words = tmp_path / "words"
    words.touch()
    environ = {"POD_UID": "u", "MODELS_DIR": str(models), "SPECDEC_PROFILE": str(profile)}
    environ["TERMINATION_LOG"] = str(words)
    code = subject.main({**environ, subject.PLAN: plan.model_dump_json(by_alias=True)})
    return code, words.read_text()


def judged(models: Path, tmp_path: Path, drafter: str, **more: Any) -> Report:
    """Run as `run` does, and read what it says."""
    code, text = run(models, tmp_path, drafter, **more)
    assert (code, len(text) <= 4096) == (0, True)
    found = PreflightResult.model_validate_json(text)
    wish = {name: value for name, value in more.items() if name not in ("target", "layers")}
    assert (found.revision, found.settings) == ("b-1", Preflight.model_validate(wish).settings)
    return expanded(found.report)


def test_a_good_drafter_passes(models, tmp_path):
    assert judged(models, tmp_path, "good").verdict is Verdict.PASSED


def test_names_that_feed_nothing_block(models, tmp_path):
    report = judged(models, tmp_path, "renamed")
    assert report.reason == "ParametersNotFed"
    assert "expected" in report.blocking[0].sentence


def test_known_other_names_are_mended_unless_nobody_may(models, tmp_path):
    report = judged(models, tmp_path, "layers-0")
    assert (report.verdict, [repair.code for repair in report.repairs]) == (
        Verdict.PASSED,
        ["ParametersNotFed"],
    )
    assert judged(models, tmp_path, "layers-0", repair="Never").verdict is Verdict.BLOCKED


def test_layers_that_a_person_names_are_mended_and_said(models, tmp_path):
    layers = Layers(convention=Convention.OUTPUT)
    report = judged(models, tmp_path, "outputs", layers=layers)
    assert report.verdict is Verdict.PASSED
    assert [repair.code for repair in report.repairs] == ["LayersDiffer"]
    assert judged(models, tmp_path, "outputs", layers=layers, repair="Never").reason == "LayersDiffer"
    assert judged(models, tmp_path, "outputs").repairs == ()


def test_a_skipped_code_is_named_and_does_not_count(models, tmp_path):
    found = judged(models, tmp_path, "renamed")
    codes = sorted({finding.code for finding in found.blocking})
    report = judged(models, tmp_path, "renamed", skipChecks=codes)
    assert not report.blocking
    assert {finding.code for finding in report.skipped} == set(codes)


@pytest.mark.parametrize(
    ("drafter", "target", "code"), [("none", "kimi", "FileMissing"), ("good", "none", "TargetNotFound")]
)
def test_a_folder_that_is_not_there_is_named(models, tmp_path, drafter, target, code):
    assert judged(models, tmp_path, drafter, target=target).reason == code


def test_a_preflight_that_fails_is_unknown_and_says_so(models, tmp_path, monkeypatch):
    def explode(*_: object) -> None:
        raise RuntimeError("on purpose")

    monkeypatch.setattr(subject, "examined", explode)
    report = judged(models, tmp_path, "good")
    assert (report.verdict, report.findings[0].code) == (Verdict.UNKNOWN, "NotJudged")


def test_without_a_plan_there_is_no_answer(tmp_path, caplog):
    words = tmp_path / "words"
    assert subject.main({"POD_UID": "u", "TERMINATION_LOG": str(words)}) == 1
    assert "the preflight can't run" in caplog.text
    assert not words.exists()
