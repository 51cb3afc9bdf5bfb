"""The sixteen public faults that made drafters silent: what headers show is found, the rest is named with its catcher."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

import pytest
from tests.support.headers import HIDDEN, VOCABULARY, Fixture, kimi_k25, llama, mla
from tests.support.judging import codes, judged

from specdec.preflight.arguments import rendered
from specdec.preflight.capabilities import RateMeaning, capabilities
from specdec.preflight.checks import BY_CODE, CHECKS
from specdec.preflight.facts import Case, Convention, Declared
from specdec.preflight.finding import Severity
from specdec.preflight.preflight import Request, preflight
from specdec.preflight.repair import mend
from specdec.preflight.report import Verdict, expanded
from specdec.preflight.source import LocalFolder
from specdec.preflight.stories import LIVE, STORIES

NOTHING = Declared()


@dataclass(frozen=True)
class Fault:
    """One fault of the corpus that headers or arguments show."""

    number: int
    drafter: Fixture
    code: str
    version: str = "0.5.23"
    declared: Declared = NOTHING
    algorithm: str = "EAGLE3"


def absolute() -> Fixture:
    fixture = llama()
    return fixture.mapping([index + offset for index, offset in enumerate(fixture.d2t or ())], fixture.t2d)


STATIC = (
    Fault(1, llama().renamed("midlayer.", "model.decoder.0."), "ParametersNotFed"),
    Fault(1, llama().renamed("midlayer.", "layers.0."), "ParametersNotFed", version="0.5.11"),
    Fault(2, llama(), "AlgorithmDiffers", algorithm="EAGLE"),
    Fault(3, mla().without("lm_head.weight"), "HeadMissing"),
    Fault(6, llama(), "TargetCannotCapture", version="0.5.9"),
    Fault(7, llama().with_config(eagle_config={"eagle_aux_hidden_state_layer_ids": [-1, 2, 30]}), "EmbeddingNotCaptured"),
    Fault(7, llama(), "LayersDiffer", declared=Declared(convention=Convention.OUTPUT)),
    Fault(8, absolute(), "TokenMapAbsolute"),
    Fault(10, llama().with_config(architectures=["LlamaForCausalLM"], num_hidden_layers=40), "ArchitectureMisnamed"),
    Fault(10, llama().with_config(num_hidden_layers=40), "TooManyLayers"),
    Fault(11, llama().with_config(vocab_size=VOCABULARY - 1), "VocabularyDiffers"),
    Fault(14, mla(), "ArchitectureTooNew", version="0.5.11"),
)  # fmt: skip


@pytest.mark.parametrize("fault", STATIC, ids=lambda fault: f"{fault.number}-{fault.code}")
def test_a_fault_that_files_show_blocks(fault):
    arguments = rendered(algorithm=fault.algorithm)
    outcome = judged(fault.drafter, fault.version, declared=fault.declared, arguments=arguments)
    assert codes(outcome)[fault.code] == Severity.ERROR.value


def test_fault_9_a_missing_drafter_blocks_before_the_target_is_loaded_twice():
    arguments = rendered()
    without = {
        name: value for name, value in arguments.values.items() if name != "--speculative-draft-model-path"
    }
    request = Request(None, None, "0.5.23", arguments=type(arguments)(without))
    assert "DraftPathMissing" in codes(preflight(request))


def test_fault_16_the_gauge_is_never_read_without_knowing_its_meaning():
    assert capabilities("0.5.9").accept_rate is RateMeaning.WITH_BONUS
    assert judged(llama()).report.resolved["acceptRateGauge"].startswith("(accept length - 1)")


def test_what_no_file_shows_is_named_with_what_catches_it():
    told = " ".join(fault for fault, _ in LIVE)
    # Numbers 4, 5, 12, 13 and 15 of the corpus.
    for word in ("resume of memory", "stale drafter", "chat template", "domain", "prefix cache"):
        assert word in told
    assert all(catcher for _, catcher in LIVE)


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
