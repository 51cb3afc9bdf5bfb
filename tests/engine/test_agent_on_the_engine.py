"""The agent with the real engine, as its pod runs it: one pod, in the order of a pod's life."""

from __future__ import annotations

import os
import re
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tests.support.agentpod import AgentPod
from tests.support.engine import EngineSlot, models
from tests.support.enginepod import engine_pod, swap, traffic, users
from tests.support.models import expected_accept_length

from specdec.engine.agent.vitals import runs
from specdec.engine.protocol import (
    Agreement,
    CandidateState,
    Confirm,
    Drafting,
    Phase,
    Probe,
    Promote,
    SetDrafting,
    Swap,
)

pytestmark = [pytest.mark.engine, pytest.mark.timeout(240)]


@pytest.fixture(scope="module")
def pod(slot: EngineSlot) -> Iterator[AgentPod]:
    slot.clear()
    drafters = models()["kimi"].parent
    with tempfile.TemporaryDirectory(prefix="pod-") as folder, engine_pod(Path(folder), drafters) as made:
        made.write_plan("good")
        made.start()
        yield made


@pytest.fixture
def serving(pod: AgentPod) -> AgentPod:
    pod.wait_serving()
    return pod


def test_it_serves_after_a_warm_up_that_reached_verify(serving):
    status = serving.status()
    assert (status.revision, status.steps, status.drafting) == ("r-good", 3, Drafting.ON)
    assert status.warmup is not None
    assert status.warmup.calls >= 40
    assert float(status.warmup.accept_length) == pytest.approx(4, abs=0.3)
    assert len(status.warmup.per_position) == 3
    assert status.engine.startswith("sglang-0.5.23+cpu+specdec-")
    assert len(serving.get("/status")[1]) <= 2048
    assert serving.get("/ready")[0] == serving.get("/live")[0] == 200


def test_its_warm_up_compared_drafting_with_none_and_answers_agree(serving):
    status = serving.status()
    assert status.warmup.answers is Agreement.SAME
    assert [speed.batch for speed in status.warmup.speeds] == [1, 4]
    assert all(float(speed.on) > 0 and float(speed.off) > 0 for speed in status.warmup.speeds)
    # Four tokens a verify call instead of one, with a drafter of a fraction of the target's size.
    assert float(status.warmup.speeds[0].on) > float(status.warmup.speeds[0].off)
    assert status.plain
    print(f"warm-up: {status.warmup}")


def test_its_warm_up_says_that_the_target_took_no_image_though_its_config_has_a_tower(serving):
    warmup = serving.status().warmup
    assert warmup.images is False
    assert warmup.message.startswith("images were not checked: SGLang answered 400")
    assert "placeholders must map one-to-one" in warmup.message


def test_it_says_how_the_serving_drafter_was_read(serving):
    assert re.match(r"\d+ of \d+ tensors consumed by \d+ parameters; ", serving.status().load)
    assert "embed_tokens.weight shared with the target" in serving.status().load


def test_unsigned_and_stale_commands_change_nothing(serving):
    command = Swap(drafter=serving.drafter("dead"), confirm_within_seconds=60)
    assignment = serving.assignment
    assert serving.command(command, key=Ed25519PrivateKey.generate())[0] == 401
    assert serving.command(command, pod_uid="another")[0] == 401
    assert serving.command(command, assignment=0)[1].reason == "StaleAssignment"
    serving.assignment = assignment
    assert serving.status().candidate is None


def test_a_candidate_is_swapped_in_under_load_and_promoted(serving):
    with users(serving, 6) as codes:
        time.sleep(1)
        candidate = swap(serving, "q70")
        assert serving.command(Confirm(revision="r-q70", within_seconds=60))[1].accepted
        serving.wait(lambda status: traffic(status, "r-q70")[0] > 50, 30, "traffic on the candidate")
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
