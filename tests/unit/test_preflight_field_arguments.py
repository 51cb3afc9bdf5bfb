"""Public reports of engine arguments that did a drafter in, each with its right verdict."""

from __future__ import annotations

import pytest
from tests.support.headers import llama, mla
from tests.support.judging import arguments, codes, judged

from specdec.preflight.arguments import Arguments, parsed, rendered

# O-b01 to O-b04: arguments.

STEPS, TOP_K, TOKENS = "--speculative-num-steps", "--speculative-eagle-topk", "--speculative-num-draft-tokens"


def test_only_some_of_the_three_numbers_block():
    outcome = judged(llama(), arguments=arguments(TOKENS, "8"))
    assert codes(outcome) == {"SpeculationIncomplete": "Error"}
    assert STEPS in outcome.report.blocking[0].found
    assert codes(judged(llama(), arguments=arguments())) == {}
    assert rendered(steps=3).number(TOKENS) == 4


def test_forced_draft_tokens_are_said_and_the_effective_number_is_reported():
    given = arguments(STEPS, "3", TOP_K, "1", TOKENS, "8")
    outcome = judged(llama(), arguments=given)
    assert codes(outcome) == {"DraftTokensForced": "Warning"}
    assert outcome.report.resolved["draftTokens"] == 4


def test_eagle3_without_a_drafter_blocks():
    alone = Arguments(parsed(["--speculative-algorithm", "EAGLE3"]))
    assert codes(judged(llama(), arguments=alone)) == {"DraftPathMissing": "Error"}


def test_a_llama_drafter_must_not_inherit_an_mla_backend():
    inherits = arguments("--attention-backend", "trtllm_mla")
    own = arguments(
        "--attention-backend", "trtllm_mla", "--speculative-draft-attention-backend", "trtllm_mha"
    )
    assert codes(judged(llama(), arguments=inherits)) == {"DraftBackendInherited": "Error"}
    assert codes(judged(llama(), arguments=own)) == {}
    assert codes(judged(mla(), arguments=inherits)) == {}


@pytest.mark.parametrize(
    ("compute_capability", "found"),
    [(10, {"DraftBackendInherited": "Error"}), (9, {}), (None, {})],
)
def test_on_blackwell_the_default_backend_is_for_mla_only(compute_capability, found):
    own = arguments("--speculative-draft-attention-backend", "trtllm_mha")
    gpus = {"compute_capability": compute_capability}
    assert codes(judged(llama(), arguments=arguments(), **gpus)) == found
    assert codes(judged(llama(), arguments=own, **gpus)) == {}
    assert codes(judged(mla(), arguments=arguments(), **gpus)) == {}
