"""The agent with the real engine, as its pod runs it: one pod, in the order of a pod's life."""

from __future__ import annotations

import os
import signal
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tests.support.agentpod import AgentPod, tiny_pod
from tests.support.engine import EngineSlot
from tests.support.models import expected_accept_length

from specdec.engine.agent.vitals import runs
from specdec.engine.protocol import (
    Candidate,
    CandidateState,
    Confirm,
    Drafting,
    Phase,
    Probe,
    Promote,
    SetDrafting,
    Source,
    Status,
    Swap,
)

pytestmark = [pytest.mark.engine, pytest.mark.timeout(240)]


@pytest.fixture(scope="module")
def pod(slot: EngineSlot) -> Iterator[AgentPod]:
    slot.clear()
    with tempfile.TemporaryDirectory(prefix="pod-") as folder:
        made = tiny_pod(Path(folder))
        made.write_plan("good")
        made.start()
        yield made
        made.kill_container()


@pytest.fixture
def serving(pod: AgentPod) -> AgentPod:
    pod.wait_serving()
    return pod


def swap(pod: AgentPod, name: str, within: int = 60) -> Candidate:
    """Swap a drafter in and wait until it serves, was refused or was left again."""
    assert pod.command(Swap(drafter=pod.drafter(name), confirm_within_seconds=within))[1].accepted
    under_way = {CandidateState.STAGING, CandidateState.SWAPPING, CandidateState.PROBING}
    status = pod.wait(
        lambda status: bool(
            status.candidate
            and status.candidate.revision == f"r-{name}"
            and status.candidate.state not in under_way
        ),
        40,
        f"{name} settled",
    )
    assert status.candidate is not None
    return status.candidate


@contextmanager
def users(pod: AgentPod, count: int = 3) -> Iterator[list[int]]:
    """Users who send one request after the other; yields the codes of their answers."""
    codes: list[int] = []
    stop = threading.Event()

    def ask(number: int) -> None:
        while not stop.is_set():
            codes.append(pod.chat(f"user {number} says {len(codes)}", tokens=64)[0])

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    try:
        yield codes
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def traffic(status: Status, revision: str) -> int:
    return sum(
        row.calls
        for row in status.counters
        if row.revision == revision and row.source is Source.TRAFFIC and row.steps
    )


def test_it_serves_after_a_warm_up_that_reached_verify(serving):
    status = serving.status()
    assert (status.revision, status.steps, status.drafting) == ("r-good", 3, Drafting.ON)
    assert status.warmup is not None
    assert status.warmup.calls >= 40
    assert float(status.warmup.accept_length) == pytest.approx(4, abs=0.3)
    assert status.engine.startswith("sglang-0.5.23+cpu+specdec-")
    assert len(serving.get("/status")[1]) <= 2048
    assert serving.get("/ready")[0] == serving.get("/live")[0] == 200


def test_unsigned_and_stale_commands_change_nothing(serving):
    command = Swap(drafter=serving.drafter("dead"), confirm_within_seconds=60)
    assignment = serving.assignment
    assert serving.command(command, key=Ed25519PrivateKey.generate())[0] == 401
    assert serving.command(command, pod_uid="another")[0] == 401
    assert serving.command(command, assignment=0)[1].reason == "StaleAssignment"
    serving.assignment = assignment
    assert serving.status().candidate is None


def test_a_candidate_is_swapped_in_under_load_and_promoted(serving):
    with users(serving) as codes:
        time.sleep(1)
        candidate = swap(serving, "q70")
        assert serving.command(Confirm(revision="r-q70", within_seconds=60))[1].accepted
        serving.wait(lambda status: traffic(status, "r-q70") > 50, 30, "traffic on the candidate")
        assert serving.command(Promote(revision="r-q70"))[1].accepted
    assert candidate.state is CandidateState.SERVING
    assert float(candidate.swap_seconds) < 2
    assert candidate.requests_at_swap >= 1
    assert set(codes) == {200}
    status = serving.status()
    assert (status.revision, status.promoted, status.candidate.state) == (
        "r-q70",
        "r-q70",
        CandidateState.PROMOTED,
    )
    assert float(status.probe.accept_length) == pytest.approx(expected_accept_length(0.7, 3), abs=0.6)


def test_a_dead_candidate_is_gone_in_seconds_and_no_request_fails(serving):
    with users(serving, 1) as codes:
        began = time.monotonic()
        candidate = swap(serving, "dead")
        seconds = time.monotonic() - began
    assert (candidate.state, candidate.reason) == (CandidateState.SWAPPED_BACK, "ProbeFailed: DeadDrafter")
    assert serving.status().revision == "r-q70"
    assert set(codes) == {200}
    print(
        f"dead drafter: {seconds:.2f} s from the command to the old one serving, back in {candidate.back_seconds} s"
    )
    assert seconds < 30


def test_a_drafter_whose_names_nobody_knows_is_refused(serving):
    candidate = swap(serving, "renamed")
    assert (candidate.state, candidate.reason) == (CandidateState.REFUSED, "ParametersNotFed")
    assert serving.status().revision == "r-q70"


def test_an_unconfirmed_candidate_is_taken_back_by_the_agent_alone(serving):
    swap(serving, "good", within=6)
    status = serving.wait(
        lambda status: status.candidate.state is CandidateState.SWAPPED_BACK, 15, "the dead-man switch"
    )
    assert (status.revision, status.candidate.reason) == ("r-q70", "NotConfirmed")


def test_drafting_goes_off_and_on_in_place_and_a_probe_still_tells(serving):
    before = serving.chat("the same words")[1]
    assert serving.command(SetDrafting(drafting=Drafting.OFF))[1].accepted
    serving.wait(lambda status: status.steps == 0, 10, "off")
    assert serving.chat("the same words")[1].split(b'"content"')[1][:60] == before.split(b'"content"')[1][:60]
    assert serving.command(Probe(id="off", revision="r-q70"))[1].accepted
    status = serving.wait(lambda status: bool(status.probe and status.probe.id == "off"), 30, "probed")
    assert status.probe.passed
    serving.wait(lambda status: status.steps == 0, 10, "off again")


def test_a_killed_engine_returns_with_the_promoted_drafter_and_the_wanted_mode(serving):
    boot = serving.status().boot
    os.killpg(serving.engine_pid(), signal.SIGKILL)
    status = serving.wait(
        lambda status: status.boot != boot and status.phase is Phase.SERVING, 120, "restarted"
    )
    assert (status.revision, status.promoted, status.steps) == ("r-q70", "r-q70", 0)
    assert serving.get("/live")[0] == 200


def test_a_new_container_starts_with_what_was_promoted_not_with_the_older_plan(serving):
    assert serving.command(SetDrafting(drafting=Drafting.ON))[1].accepted
    serving.kill_container()
    serving.start()
    status = serving.wait_serving()
    assert (status.revision, status.steps, status.assignment) == ("r-q70", 3, serving.assignment)


def test_sigterm_ends_everything_in_its_time(serving):
    leader = serving.engine_pid()
    serving.process.send_signal(signal.SIGTERM)
    time.sleep(1)
    assert serving.get("/ready")[0] == 503
    assert serving.chat("late")[0] == 200
    began = time.monotonic()
    assert serving.process.wait(60) == 0
    print(f"SIGTERM: {time.monotonic() - began + 1:.1f} s")
    assert time.monotonic() - began < 5 + 5 + 15 + 5
    assert not runs(leader, Path("/proc"))


@pytest.mark.parametrize(
    ("name", "reason", "revision"),
    [("dead", "DeadDrafter", "r-dead"), ("renamed", "ParametersNotFed", "")],
)
def test_a_bad_drafter_at_the_start_serves_without_drafting(pod, name, reason, revision):
    if pod.process.poll() is None:
        pod.kill_container()
    pod.assignment += 1
    pod.write_plan(name)
    pod.start()
    status = pod.wait_serving(200)
    assert (status.reason, status.revision, status.steps) == (reason, revision, 0)
    assert pod.get("/ready")[0] == 200
    assert pod.chat("hello")[0] == 200
    pod.kill_container()
