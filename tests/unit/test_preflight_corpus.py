"""The sixteen public faults that made drafters silent: what files show is found, the rest is named with its catcher."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.support.headers import HIDDEN, kimi_k25, llama, mla
from tests.support.judging import codes, judged
from tests.support.public_faults import LIVED, SHOWN, Lived, Shown, absolute

from specdec.preflight.capabilities import RateMeaning, capabilities
from specdec.preflight.checks import BY_CODE, CHECKS
from specdec.preflight.facts import Case
from specdec.preflight.finding import Severity
from specdec.preflight.preflight import preflight
from specdec.preflight.repair import mend
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


@pytest.mark.parametrize("fault", LIVED, ids=lambda fault: f"{fault.number}-{fault.title}")
def test_a_fault_that_no_file_shows_is_named_with_its_layer_and_caught_there(fault: Lived):
    layers = [layer for told, layer in LIVE if fault.story in told]
    assert len(layers) == 1
    assert layers[0]
    for test in fault.tests:
        path, _, name = test.partition("::")
        assert re.search(rf"^(async )?def {name}\(", (ROOT / path).read_text(), re.MULTILINE), test


def test_the_gauge_is_never_read_without_knowing_its_meaning():
    assert capabilities("0.5.9").accept_rate is RateMeaning.WITH_BONUS
    assert judged(llama()).report.resolved["acceptRateGauge"].startswith("(accept length - 1)")


# Properties of all checks.


def test_codes_are_unique_camel_case_and_have_a_whole_story():
    assert len(BY_CODE) == len(CHECKS)
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
    assert len(report.compact()) <= 4096
    assert len(report.compact(900)) <= 900
    assert report.reason in report.compact(900)


def test_a_small_target_of_another_width_is_named(tmp_path):
    target = kimi_k25()
    target.config["text_config"]["hidden_size"] = HIDDEN // 2
    assert codes(judged(llama(), target=target)) == {"HiddenSizeDiffers": "Error"}
    assert LocalFolder(tmp_path).sizes() == {}
