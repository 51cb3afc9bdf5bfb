"""`kubectl specdec preflight NAME`: what the preflight of a live server's drafter found."""

from __future__ import annotations

import json

import pytest
from tests.support.scenario import Scenario
from tests.support.scenario_agent import Model
from tests.support.scenario_kube import ScenarioKube

from specdec.cli import cluster
from specdec.preflight.finding import Finding, Repair, Severity
from specdec.preflight.report import Report


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> ScenarioKube:
    """A first drafter that its headers block."""
    scenario = Scenario()
    scenario.given.drafters(v1=Model(fault="ParametersNotFed"), v2=0.9).server("v1").traffic(1)
    scenario.when.time(10)
    shown = ScenarioKube(scenario)
    monkeypatch.setattr(cluster, "connect", shown.connect)
    return shown


def test_a_blocked_drafter_is_shown_with_what_to_do(stage):
    result = stage.call("preflight", "kimi", "-n", "llm")
    assert result.exit_code == 1
    head, _, code, *rest = result.output.splitlines()
    assert head == "Blocked  pvc://models/drafters/v1 for pvc://models/target on SGLang 0.5.23"
    assert code.split() == ["Error", "ParametersNotFed"]
    assert any(line.split()[:1] == ["do"] for line in rest)


def test_an_engine_that_answers_gives_the_whole_report(stage):
    stage.scenario.when.drafter("v2").time(60)
    stage.refresh()
    record = max(stage.scenario.cluster.revisions.values(), key=lambda one: one.number)
    warning = Finding("BaseModelDiffers", Severity.WARNING, "found", "expected", "hint", "source")
    skipped = Finding("HeadTied", Severity.ERROR, "found", "expected", "hint", "source")
    repairs = (Repair("ParametersNotFed", "24 names were mended"),)
    report = Report("/d", "/t", "0.5.23", "SGLang EAGLE-3", (warning,), repairs, (skipped,))
    stage.kube.served["kimi-0:8701", "preflight"] = {record.name: json.loads(json.dumps(report.to_json()))}
    result = stage.call("preflight", "kimi")
    assert result.exit_code == 0
    for words in ("Passed", "pvc://models/drafters/v2", "24 names were mended", "Skipped  HeadTied", "hint"):
        assert words in result.output
    as_json = json.loads(stage.call("preflight", "kimi", "-o", "json").output)
    assert as_json["findings"] == [warning.to_json()]
    stage.kube.served["kimi-0:8701", "preflight"] = {record.name: {"something": "else"}}
    assert stage.call("preflight", "kimi").output.startswith("Passed")


def test_a_drafter_that_was_not_judged_is_said(stage):
    stage.scenario.when.spec(preflight={"mode": "Off"}, drafter={"model": "pvc://models/drafters/v2"}).time(5)
    stage.refresh()
    result = stage.call("preflight", "kimi")
    assert result.exit_code == 2
    assert "preflight.mode is Off: v2 is not judged" in result.output


def test_a_name_and_files_at_once_make_no_sense(stage):
    result = stage.call("preflight", "kimi", "--drafter", "x")
    assert (result.exit_code, "not both" in result.output) == (2, True)
