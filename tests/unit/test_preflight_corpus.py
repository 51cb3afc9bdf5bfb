"""The sixteen public faults that made drafters silent: what files show is found, the rest is named with its catcher."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.headers import HIDDEN, kimi_k25, llama, mla
from tests.support.judging import codes, judged
from tests.support.public_faults import LIVED, SHOWN, Lived, Shown, absolute

from specdec.preflight.capabilities import RateMeaning, capabilities
from specdec.preflight.checks import CHECKS
from specdec.preflight.facts import Case
from specdec.preflight.finding import Severity
from specdec.preflight.preflight import preflight
from specdec.preflight.repair import mend
from specdec.preflight.report import Verdict, expanded
from specdec.preflight.source import LocalFolder
from specdec.preflight.stories import LIVE, STORIES

ROOT = Path(__file__).parents[2]


def test_the_corpus_is_whole_and_most_of_it_shows_in_files():
    shown, lived = {fault.number for fault in SHOWN}, {fault.number for fault in LIVED}
    assert shown | lived == set(range(1, 17))
    assert not shown & lived
    assert len(shown) >= 10


@pytest.mark.parametrize("fault", SHOWN, ids=lambda fault: f"{fault.number}-{fault.title}")
def test_a_fault_that_files_show_blocks(fault: Shown, tmp_path: Path):
    assert codes(preflight(fault.request(tmp_path)))[fault.code] == Severity.ERROR.value


@pytest.fixture(scope="module")
def collected() -> set[str]:
    """Node ids of all tests in the files that the corpus refers to, as pytest finds them."""
    paths = sorted({test.partition("::")[0] for fault in LIVED for test in fault.tests})
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", *paths]
    return set(
        subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    )


def looks_at_something(test: str) -> bool:
    """Whether a test holds what it did to anything, and is not switched off."""
    path, _, name = test.partition("[")[0].partition("::")
    (found,) = (
        node
        for node in ast.parse((ROOT / path).read_text()).body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == name
    )
    marks = {ast.unparse(mark).partition("(")[0] for mark in found.decorator_list}
    thens = (node.attr for node in ast.walk(found) if isinstance(node, ast.Attribute))
    asserts = any(isinstance(node, ast.Assert) for node in ast.walk(found)) or "then" in thens
    return asserts and not marks & {"pytest.mark.skip", "pytest.mark.skipif", "pytest.mark.xfail"}


@pytest.mark.parametrize("fault", LIVED, ids=lambda fault: f"{fault.number}-{fault.title}")
def test_a_fault_that_no_file_shows_is_named_with_its_layer_and_caught_there(
    fault: Lived, collected: set[str]
):
    layers = [layer for told, layer in LIVE if fault.story in told]
    assert len(layers) == 1
    assert layers[0]
    for test in fault.tests:
        assert [node for node in collected if node == test or node.startswith(f"{test}[")], test
        assert looks_at_something(test), test


def test_the_gauge_is_never_read_without_knowing_its_meaning():
    assert capabilities("0.5.9").accept_rate is RateMeaning.WITH_BONUS
    assert judged(llama()).report.resolved["acceptRateGauge"].startswith("(accept length - 1)")


# Properties of all checks.


def test_codes_are_unique_camel_case_and_have_a_whole_story():
    assert len({check.code for check in CHECKS}) == len(CHECKS)
    for story in STORIES.values():
        assert re.fullmatch(r"([A-Z][a-z0-9]*)+", story.code)
        assert story.what.endswith(".")
        assert all((story.symptom, story.mend, story.source))


def test_every_check_judges_a_case_of_which_nothing_is_known():
    nothing = Case(None, None, None, "")
    found = [finding.code for check in CHECKS if (finding := check(nothing))]
    assert found == ["EngineVersionUnknown"]
    assert mend(nothing).repairs == ()


def test_every_fault_of_a_drafter_is_told_at_once(tmp_path):
    many = absolute().without("norm.weight").with_config(norm_before_residual=True, vocab_size=7)
    found = codes(judged(many))
    assert {"ParametersNotFed", "VocabularyDiffers", "NormBeforeResidual"} <= set(found)


def test_an_unknown_version_checks_what_holds_for_all_and_is_no_pass():
    outcome = judged(mla().without("lm_head.weight"), "0.9.0")
    assert codes(outcome) == {"EngineVersionUnknown": "Unknown", "HeadMissing": "Error"}
    sound = judged(llama().renamed("midlayer.", "layers.0."), "0.9.0")
    assert codes(sound) == {"EngineVersionUnknown": "Unknown"}
    assert sound.report.exit_code == 2


def test_a_skipped_code_does_not_block_and_stays_visible():
    outcome = judged(mla().without("lm_head.weight"), skip=frozenset({"HeadMissing"}))
    assert outcome.report.exit_code == 0
    assert [finding.code for finding in outcome.report.skipped] == ["HeadMissing"]


def test_a_compact_report_fits_a_termination_message_and_keeps_the_first_code(tmp_path):
    fixture = absolute().with_config(norm_before_residual=True, vocab_size=7, hidden_size=64)
    report = judged(fixture).report
    for most in (4096, 900, 300):
        compact = report.compact(most)
        assert len(json.dumps(compact, separators=(",", ":"))) <= most
        read = expanded(compact)
        assert (read.reason, read.verdict) == (report.reason, report.verdict)
        assert len(read.findings) + read.left_out == len(report.findings)
    assert expanded(report.compact()).blocking[0].sentence.startswith(report.blocking[0].found[:40])


def test_what_is_read_back_moves_no_cursor():
    row = ["Code\x1b[2J", "E", "found\x1b]0;x\x07", "expected\u202e"]
    compact = {
        "engineVersion": "1",
        "findings": [row],
        "more": 0,
        "repairs": ["\x1b"],
        "skipped": [],
        "digests": {},
    }
    text = json.dumps(expanded(compact).to_json(), ensure_ascii=False)
    assert not set("\x1b\x07\u202e") & set(text)
    assert expanded(compact).verdict is Verdict.BLOCKED


@pytest.mark.parametrize(
    "content", [{}, {"findings": 3}, {"engineVersion": "1", "findings": [[1]], "more": "x"}]
)
def test_what_is_no_compact_report_is_said(content):
    with pytest.raises(ValueError, match=r"operator and engine differ in version|invalid literal"):
        expanded(content)


def test_a_small_target_of_another_width_is_named(tmp_path):
    target = kimi_k25()
    target.config["text_config"]["hidden_size"] = HIDDEN // 2
    assert codes(judged(llama(), target=target)) == {"HiddenSizeDiffers": "Error"}
    assert LocalFolder(tmp_path).sizes() == {}
