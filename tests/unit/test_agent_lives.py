"""The agent's real process: its starts, failures and ends, with a stand-in for SGLang that fails on purpose."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.agentpod import AgentPod
from tests.support.standinpod import new_pod, settled

from specdec.engine.agent.vitals import runs
from specdec.engine.protocol import (
    Agreement,
    CandidateState,
    Drafting,
    Drain,
    Phase,
    Promote,
    SetDrafting,
    Status,
    Swap,
)


@pytest.fixture
def pod(tmp_path: Path, shared_models: Path) -> Iterator[AgentPod]:
    with new_pod(tmp_path, shared_models) as made:
        yield made


@pytest.fixture
def start(pod: AgentPod) -> Callable[..., Status]:
    """Start a pod whose engine has these faults, one object for each start, and wait until it serves.

    Short limits are for the faulty starts: the healthy one after them may be slow on a busy machine.
    """

    def begin(drafter: str = "good", faults: tuple[dict[str, Any], ...] = (), **limits: int) -> Status:
        left = pod.folder / "faults.json"
        left.write_text(json.dumps(faults))
        pod.write_plan(drafter, **limits)
        pod.start()
        if limits:
            pod.wait(lambda _: left.read_text() == "[]", 30, "the last faulty start")
            pod.write_plan(drafter)
        return pod.wait_serving(30)

    return begin


@pytest.mark.parametrize(
    ("drafter", "reason"),
    [("nowhere", "FileMissing"), ("renamed", "ParametersNotFed"), ("dead", "DeadDrafter")],
)
def test_a_bad_drafter_at_the_start_leaves_a_ready_engine_that_does_not_draft(pod, start, drafter, reason):
    status = start(drafter)
    assert (status.reason, status.drafting, status.steps) == (reason, Drafting.OFF, 0)
    assert pod.get("/ready")[0] == 200
    code, answer = pod.command(Swap(drafter=pod.drafter("good"), confirm_within_seconds=60))
    if drafter != "dead":
        assert (code, answer.reason) == (409, "RestartNeeded")
    else:
        status = settled(pod, "good")
        assert (status.candidate.state, status.steps) == (CandidateState.SERVING, 3)


def test_two_unexplained_ends_and_the_third_start_leaves_the_drafter_out(pod, start):
    crash = {"say": ["IndexError: index 300 is out of bounds"], "exit": 1}
    status = start(faults=(crash, {"chat": "die"}))
    assert (status.reason, status.revision) == ("EngineExited", "")
    assert status.message.startswith("started without the drafter: ")


@pytest.mark.parametrize(
    ("fault", "limits", "reason"),
    [
        ({"hang": True}, {"stall_seconds": 1}, "StartStalled"),
        ({"without": "counters"}, {}, "PatchNotInForce"),
        ({"chat": "error"}, {}, "WarmUpFailed"),
        ({"chat": "hang"}, {"warmup_seconds": 1}, "WarmUpFailed"),
        ({"say": ["torch.OutOfMemoryError: CUDA out of memory."], "exit": 1}, {}, "OutOfMemory"),
    ],
)
def test_a_failed_start_says_why_and_the_next_one_serves(pod, start, fault, limits, reason):
    start(faults=(fault,), **limits)
    assert f"ERROR {reason}: " in pod.log
    assert pod.status().reason == ""


@pytest.mark.parametrize(("fault", "answers"), [("near", Agreement.SAME), ("far", Agreement.DIFFERENT)])
def test_another_answer_with_drafting_is_told_unless_it_is_a_near_tie(start, fault, answers):
    status = start(faults=({"chat": fault},))
    assert status.warmup.answers is answers
    assert ("drafting changed 5 of 5 greedy answers" in status.warmup.message) is (
        answers is Agreement.DIFFERENT
    )


def test_an_engine_that_answers_nothing_is_no_measure_of_a_drafter(start):
    status = start(faults=({"chat": "empty"},))
    assert (status.warmup.passed, status.warmup.speeds) == (False, ())
    assert "empty" in status.warmup.message


def test_graph_capture_that_fails_takes_the_next_rung(pod, start):
    status = start(faults=({"say": ["Exception: Capture cuda graph failed: CUDA error"], "exit": 1},))
    assert (status.rung, status.steps) == ("FewerOffGraphs", 3)


CAPTURING = "Capturing batches (bs=160 avail_mem=8.71 GB):   3%|▎  | 1/36 [00:02<00:16,  1.93it/s]"


def test_a_start_that_hangs_in_graph_capture_goes_down_the_ladder_to_the_rung_that_works(pod, start):
    hanging = {"say": [CAPTURING], "hang": True}
    # Long enough for a stand-in that is slow to say what it hangs in.
    status = start(faults=(hanging, hanging), stall_seconds=2)
    assert (status.rung, status.steps) == ("SmallerGraphs", 3)
    assert pod.log.count("StartStalled: no progress for 2 s in CapturingGraphs") == 2
    assert [
        name for name in ("FewerOffGraphs", "SmallerGraphs", "NoGraphs") if f"rung {name} of" in pod.log
    ] == [
        "FewerOffGraphs",
        "SmallerGraphs",
    ]
    assert status.failure.reason == "StartStalled"
    assert CAPTURING[:20] in status.failure.lines[-1]


def test_a_slow_load_that_goes_on_is_no_stall_and_says_how_far_it_is(pod):
    shards = [f"Multi-thread loading shards:  10% Completed | {n}/9 [00:01<00:05]" for n in range(1, 10)]
    (pod.folder / "faults.json").write_text(json.dumps([{"say": shards, "pause": 0.5}]))
    pod.write_plan("good", stall_seconds=3)
    pod.start()
    loading = "loading weights: shard"
    seen = pod.wait(lambda status: status.message.startswith(loading), 20, "a shard")
    assert seen.phase is Phase.LOADING_WEIGHTS
    later = pod.wait(lambda status: status.message == f"{loading} 9 of 9", 20, "the last shard")
    assert later.progress_at > seen.progress_at
    assert pod.wait_serving(30).failure is None


def test_an_end_is_told_to_the_kubelet_until_the_engine_serves_again(pod):
    lines = [
        "Traceback (most recent call last):",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate",
    ]
    (pod.folder / "faults.json").write_text(json.dumps([{"say": lines, "exit": 1}]))
    pod.write_plan("good")
    pod.start()
    failed = pod.wait(lambda status: status.failure is not None, 20, "Failed")
    assert (failed.failure.reason, failed.failure.ended) == ("OutOfMemory", "exit code 1")
    assert failed.failure.lines == (lines[1],)
    assert failed.failure.message.endswith("lower engine.memFractionStatic or engine.contextLength")
    told = pod.termination_message
    pod.wait_serving(30)
    assert told == "" or told.startswith(f"{failed.failure.at} OutOfMemory (exit code 1): ")
    assert pod.termination_message == ""
    assert pod.status().failure == failed.failure


def test_a_broken_target_is_not_ready_and_alive(pod):
    pod.write_plan("good", target_path=str(pod.models / "gone"))
    pod.start()
    status = pod.wait(lambda status: status.phase is Phase.FAILED, 20, "Failed")
    assert status.reason == "TargetNotFound"
    assert (pod.get("/ready")[0], pod.get("/live")[0]) == (503, 200)


def test_it_waits_for_its_plan(pod):
    pod.start()
    pod.wait(lambda status: status.reason == "PlanUnreadable", 20, "no plan")
    pod.write_plan("good")
    pod.wait_serving(30)


def test_a_killed_engine_comes_back_with_the_promoted_drafter_and_the_wanted_mode(pod, start):
    boot = start().boot
    pod.command(SetDrafting(drafting=Drafting.OFF))
    pod.command(Swap(drafter=pod.drafter("q70"), confirm_within_seconds=600))
    settled(pod, "q70")
    os.killpg(pod.engine_pid(), signal.SIGKILL)
    status = pod.wait(lambda status: status.boot != boot and status.phase is Phase.SERVING, 30, "restarted")
    assert (status.revision, status.steps) == ("r-good", 0)
    assert (status.candidate.state, status.candidate.reason) == (CandidateState.SWAPPED_BACK, "EngineEnded")


def test_drafting_off_for_a_while_ends_without_another_command_and_with_the_engine(pod, start):
    boot = start().boot
    pod.command(SetDrafting(drafting=Drafting.OFF, for_seconds=2))
    pod.wait(lambda status: status.steps == 0 and status.drafting_until, 10, "off")
    pod.wait(lambda status: status.steps == 3 and not status.drafting_until, 10, "on again")
    pod.command(SetDrafting(drafting=Drafting.OFF, for_seconds=600))
    pod.wait(lambda status: status.steps == 0, 10, "off")
    os.killpg(pod.engine_pid(), signal.SIGKILL)
    status = pod.wait(lambda status: status.boot != boot and status.phase is Phase.SERVING, 30, "restarted")
    assert (status.steps, status.drafting_until) == (3, "")


def test_a_candidate_that_kills_the_engine_is_named_and_the_promoted_one_returns(pod, start):
    boot = start().boot
    pod.command(Swap(drafter=pod.drafter("embedding"), confirm_within_seconds=600))
    status = pod.wait(lambda status: status.boot != boot and status.phase is Phase.SERVING, 30, "restarted")
    assert (status.revision, status.steps) == ("r-good", 3)
    assert (status.candidate.state, status.candidate.reason) == (CandidateState.SWAPPED_BACK, "EngineCrashed")


def test_a_restarted_container_starts_with_what_was_promoted(pod, start):
    start()
    pod.command(Swap(drafter=pod.drafter("q70"), confirm_within_seconds=600))
    settled(pod, "q70")
    pod.command(Promote(revision="r-q70"))
    pod.command(Swap(drafter=pod.drafter("good"), confirm_within_seconds=600))
    settled(pod, "good")
    pod.kill_container()
    pod.start()
    status = pod.wait_serving(30)
    assert (status.revision, status.promoted, status.assignment) == ("r-q70", "r-q70", 4)


def test_an_agent_killed_alone_leaves_an_engine_that_the_next_agent_ends(pod, start):
    boot = start().boot
    pod.command(SetDrafting(drafting=Drafting.OFF))
    left = pod.engine_pid()
    pod.kill_agent()
    assert runs(left, Path("/proc"))
    pod.start()
    status = pod.wait(lambda status: status.boot != boot and status.phase is Phase.SERVING, 30, "restarted")
    assert not runs(left, Path("/proc"))
    assert (status.revision, status.steps) == ("r-good", 0)


def test_a_newer_plan_switches_drafting_now_and_the_drafter_at_the_next_start(pod, start):
    boot = start().boot
    pod.write_plan("q70", assignment=7, drafting=Drafting.OFF)
    status = pod.wait(lambda status: status.assignment == 7 and status.steps == 0, 10, "adopted")
    assert (status.revision, status.promoted, status.boot) == ("r-good", "r-q70", boot)
    os.killpg(pod.engine_pid(), signal.SIGKILL)
    status = pod.wait(lambda status: status.boot != boot and status.phase is Phase.SERVING, 30, "restarted")
    assert (status.revision, status.steps) == ("r-q70", 0)


def test_the_end_waits_for_streams_in_flight_and_no_longer_than_it_may(pod, start):
    start()
    ends: dict[str, int] = {}

    def stream(name: str, seconds: float) -> None:
        with contextlib.suppress(OSError):
            ends[name] = pod.chat(name, delay=seconds)[0]

    # The agent lingers for 5 s anyway, and then waits for 5 s at most.
    streams = [threading.Thread(target=stream, args=given) for given in (("slow", 7), ("endless", 600))]
    for one in streams:
        one.start()
    pod.wait(lambda status: status.in_flight == 2, 10, "two streams in flight")
    pod.process.send_signal(signal.SIGTERM)
    pod.wait(lambda _: pod.get("/ready")[0] == 503, 10, "to leave the Service")
    assert pod.chat("late")[0] == 200
    assert pod.process.wait(60) == 0
    for one in streams:
        one.join()
    assert ends == {"slow": 200}
    assert not (Path("/proc") / str(pod.engine_pid())).exists()


def test_a_drain_on_command_only_leaves_the_service(pod, start):
    start()
    assert pod.command(Drain())[1].accepted
    assert (pod.status().phase, pod.get("/ready")[0], pod.chat("still there")[0]) == (
        Phase.DRAINING,
        503,
        200,
    )
    assert pod.command(Swap(drafter=pod.drafter("q70"), confirm_within_seconds=60))[1].reason == "NotServing"


def test_an_end_during_the_start_is_quick(pod, tmp_path):
    (tmp_path / "faults.json").write_text(json.dumps([{"hang": True}]))
    pod.write_plan("good")
    pod.start()
    pod.wait(lambda status: status.phase is Phase.LOADING_WEIGHTS, 20, "loading")
    began = time.monotonic()
    assert pod.terminate(20) == 0
    assert time.monotonic() - began < 5
