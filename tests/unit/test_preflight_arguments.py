"""The engine's arguments as a whole."""

from __future__ import annotations

import pytest
from tests.support.headers import kimi_k25, llama, mla
from tests.support.judging import codes, judged

from specdec.preflight.arguments import Arguments, parsed, rendered

CASES = [
    (["--speculative-num-steps", "9"], {"ArgumentOwned": "Error"}),
    (["--host=0.0.0.0"], {"ArgumentOwned": "Error"}),
    (["--speculative-draft-model", "x"], {"ArgumentOwned": "Error"}),
    (["--no-such-flag"], {"ArgumentUnknown": "Error"}),
    (["--cuda-graph-max-bs-decode", "32"], {}),
    (["--disable-cuda-graph"], {"ArgumentDeprecated": "Warning", "GraphsSwitchedOff": "Warning"}),
    (["--tp", "8"], {}),
    (["--tp-size", "6"], {"HeadsNotDivisible": "Error"}),
    (["--pp-size", "2"], {"PipelineWithEagle3": "Error"}),
    (["--attn-dp-size", "2"], {"AttentionDataParallel": "Warning"}),
    (["--tp-size", "9" * 5000], {}),
    (["--disaggregation-mode", "prefill"], {"Disaggregated": "Warning"}),
    (["--speculative-use-rejection-sampling"], {"RejectionSamplingNeedsWholeVocabulary": "Error"}),
    (["--mem-fraction-static", "1.2"], {"MemoryFractionWrong": "Error"}),
    (["--mem-fraction-static", "0.85", "--context-length", "65536"], {}),
    (["--context-length", "524288"], {"ContextTooShort": "Error"}),
]


@pytest.mark.parametrize(("extra", "expected"), CASES, ids=lambda value: " ".join(value)[:60])
def test_extra_arguments_are_judged_beside_what_the_operator_renders(extra, expected):
    assert codes(judged(llama(), arguments=rendered(tuple(extra)))) == expected


def test_an_argument_of_another_version_is_unknown_in_this_one():
    old = rendered(("--cuda-graph-max-bs", "32"))
    assert codes(judged(llama(), "0.5.12", arguments=rendered(("--cuda-graph-max-bs-decode", "8")))) == {
        "ArgumentUnknown": "Error"
    }
    assert codes(judged(llama(), "0.5.12", arguments=old)) == {}
    assert codes(judged(llama(), "0.5.19", arguments=old)) == {"ArgumentDeprecated": "Warning"}
    assert codes(judged(llama(), "0.5.20", arguments=old)) == {"ArgumentUnknown": "Error"}


def test_tensor_parallel_needs_reduced_captures():
    parallel = rendered(("--tp-size", "8"))
    assert codes(judged(llama(), "0.5.13", arguments=parallel)) == {"CaptureNotReduced": "Error"}
    switched = rendered(("--tp-size", "8", "--enforce-disable-flashinfer-allreduce-fusion"))
    assert codes(judged(llama(), "0.5.13", arguments=switched)) == {}
    assert codes(judged(llama(), "0.5.14", arguments=parallel)) == {}


def test_a_tree_needs_a_backend_that_verifies_one():
    words = ["--speculative-algorithm", "EAGLE3", "--speculative-draft-model-path", "x", "--speculative-num-steps", "3",
             "--speculative-eagle-topk", "4", "--speculative-num-draft-tokens", "8", "--attention-backend", "trtllm_mla"]  # fmt: skip
    assert codes(judged(mla(), arguments=Arguments(parsed(words)))) == {"TreeNeedsOtherBackend": "Error"}


@pytest.mark.parametrize(("value", "expected"), [("2.5", {"AcceptanceSimulated": "Error"}), ("-1", {})])
def test_simulated_acceptance_blocks(value, expected):
    environment = {"SGLANG_SIMULATE_ACC_LEN": value}
    assert codes(judged(llama(), arguments=rendered((), environment))) == expected


def test_aliases_and_later_values_are_read_as_argparse_does():
    found = parsed(
        [
            "--tp",
            "2",
            "--model=x",
            "--tp-size",
            "4",
            "--cuda-graph-bs-decode",
            "1",
            "2",
            "--trust-remote-code",
        ]
    )
    assert found == {
        "--tp-size": "4",
        "--model-path": "x",
        "--cuda-graph-bs-decode": "1 2",
        "--trust-remote-code": "",
    }


def test_a_target_served_plainly_needs_no_drafter():
    target = kimi_k25()
    target.config["text_config"]["quantization_config"] = {"quant_method": "fp8"}
    assert codes(judged(llama(), "0.5.9", target=target, arguments=Arguments(parsed(["--tp", "8"])))) == {
        "CaptureNotReduced": "Error"
    }
