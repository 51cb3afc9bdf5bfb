from __future__ import annotations

import types
from pathlib import Path
from typing import Any

import pytest

from specdec.engine.plugin import plain_decode, state
from specdec.engine.plugin.plain_decode import Plain, generate, without_speculation
from specdec.engine.plugin.settings import Settings
from specdec.engine.protocol import Drafting

PLAIN = Plain("plain backend", "plain graphs", "none")


@pytest.fixture
def own(tmp_path: Path) -> state.Engine:
    return state.install(Settings(tmp_path, "s", "r", "probe-", Drafting.OFF))


def worker(steps: int = 0, plain: Plain | None = PLAIN) -> Any:
    return types.SimpleNamespace(
        speculative_num_steps=steps, specdec_plain=plain, activate_step_by_batch=lambda _size: None
    )


def batch(**fields: Any) -> Any:
    mode = types.SimpleNamespace(is_extend=lambda: fields.get("extend", False), is_idle=lambda: False)
    plain = {
        "has_grammar": False,
        "return_logprob": False,
        "return_hidden_states": False,
        "spec_info": "draft",
    }
    lengths = types.SimpleNamespace(shape=(2,))
    return types.SimpleNamespace(
        forward_mode=mode, is_extend_in_batch=False, seq_lens=lengths, **plain | fields
    )


def took(worker: Any, batch: Any, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(plain_decode, "_decode", lambda *_: "plain")
    return str(generate(lambda *_: "sglang", worker, batch))


def test_nothing_drafted_is_decoded_plainly(own, monkeypatch):
    assert took(worker(), batch(), monkeypatch) == "plain"


@pytest.mark.parametrize(
    "needs",
    [
        {"extend": True}, {"has_grammar": True}, {"return_logprob": True}, {"return_hidden_states": True},
        {"spec_info": None}, {"mamba_track_indices": [1]}, {"hisparse_coordinator": "one"},
    ],
)  # fmt: skip
def test_what_needs_the_verify_path_takes_it(own, monkeypatch, needs):
    assert took(worker(), batch(**needs), monkeypatch) == "sglang"


def test_drafting_and_warm_engines_and_those_without_a_plain_path_are_left_alone(own, monkeypatch):
    assert took(worker(steps=3), batch(), monkeypatch) == "sglang"
    assert took(worker(plain=None), batch(), monkeypatch) == "sglang"
    own.warm = True
    assert took(worker(), batch(), monkeypatch) == "sglang"


def test_the_runner_is_as_before_after_a_failed_pass():
    runner = types.SimpleNamespace(attn_backend="a", decode_cuda_graph_runner="b", spec_algorithm="c")

    def fail() -> None:
        with without_speculation(runner, PLAIN):
            assert (runner.attn_backend, runner.spec_algorithm) == ("plain backend", "none")
            raise RuntimeError("out of memory")

    with pytest.raises(RuntimeError):
        fail()
    assert vars(runner) == {"attn_backend": "a", "decode_cuda_graph_runner": "b", "spec_algorithm": "c"}


def test_a_plain_path_that_can_not_be_made_leaves_sglangs_own(own, monkeypatch, caplog):
    class Worker:
        adaptive_controller, topk, target_worker = object(), 1, types.SimpleNamespace(model_runner=object())

        def _override_worker_state(self, *_: int) -> None:
            raise RuntimeError("a kernel does not compile")

    algorithm = types.SimpleNamespace(NONE="none")
    module = types.SimpleNamespace(SpeculativeAlgorithm=algorithm)
    monkeypatch.setitem(__import__("sys").modules, "sglang.srt.speculative.spec_info", module)
    made = Worker()
    plain_decode.prepare(lambda _worker: None, made)
    assert made.specdec_plain is None  # type: ignore[attr-defined]
    assert "no plain decoding" in caplog.text


class Graphs:
    """CUDA graphs of a runner, made anew for plain decoding."""

    def __init__(self, _runner: Any = None, **_options: Any) -> None:
        pass


@pytest.mark.parametrize(("sizes", "captured"), [(None, True), ([1, 8], True), ([], False)])
def test_no_graphs_are_captured_where_the_ladder_left_no_batch_size(sizes, captured):
    runner = types.SimpleNamespace(
        init_new_workspace=False,
        _get_attention_backend=lambda **_: "backend",
        attn_backend="own",
        decode_cuda_graph_runner=Graphs(),
        spec_algorithm="eagle",
    )
    made = plain_decode._make(runner, "none", sizes)
    assert (made.graphs is not None) == captured
    assert (runner.attn_backend, runner.spec_algorithm) == ("own", "eagle")
