from __future__ import annotations

from specdec.cli.screen import said_by_agent
from specdec.engine.protocol import FailureReport, Phase, Status
from specdec.rollout.world import PodView

NOW = 1_796_000_000.0


def pod(**fields: object) -> PodView:
    common = {"serial": 1, "pod_uid": "u", "boot": "b", "phase": Phase.LOADING_WEIGHTS}
    return PodView("kimi-0", "u", NOW, status=Status.model_validate({**common, **fields}))


def test_an_engine_that_serves_and_never_failed_needs_no_words():
    assert list(said_by_agent(pod(), NOW)) == []
    assert list(said_by_agent(PodView("kimi-0", "u", NOW), NOW)) == []


def test_a_start_says_how_far_it_is_and_how_the_one_before_ended():
    failure = FailureReport(
        reason="OutOfMemory",
        message="CUDA out of memory; lower --mem-fraction-static",
        ended="exit code 1",
        lines=("torch.OutOfMemoryError: CUDA out of memory",),
        at="2026-11-29T20:46:34.818441Z",
    )
    lines = list(said_by_agent(pod(message="loading weights: shard 12 of 64", failure=failure), NOW))
    assert lines[0] == "kimi-0: loading weights: shard 12 of 64"
    assert lines[1].startswith("kimi-0 failed ")
    assert lines[1].endswith(
        " ago: OutOfMemory (exit code 1): CUDA out of memory; lower --mem-fraction-static"
    )
    assert lines[2:] == ["  torch.OutOfMemoryError: CUDA out of memory"]
