"""The agent's real process while its engine, a stand-in for SGLang, serves."""

from __future__ import annotations

import json
import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tests.support.agentpod import AgentPod
from tests.support.standinpod import new_pod, settled

from specdec.api.preflight import Preflight, PreflightMode
from specdec.engine.protocol import (
    Agreement,
    CandidateState,
    Confirm,
    Drafting,
    PreflightResult,
    Probe,
    Promote,
    Rollback,
    SetDrafting,
    Status,
    Swap,
)
from specdec.engine.signing import sign
from specdec.preflight.report import expanded, read


@pytest.fixture(scope="module")
def started(
    tmp_path_factory: pytest.TempPathFactory, shared_models: Path
) -> Iterator[tuple[AgentPod, Status]]:
    """A pod, and its status when it began to serve."""
    with new_pod(tmp_path_factory.mktemp("pod"), shared_models) as made:
        made.write_plan("good")
        made.start()
        yield made, made.wait_serving(30)


@pytest.fixture
def healthy(started: tuple[AgentPod, Status]) -> AgentPod:
    """One pod for the tests that leave it serving: whatever the one before has left as its candidate."""
    return started[0]


def test_a_candidates_whole_life(healthy):
    assert healthy.status().revision == "r-good"
    assert healthy.get("/ready")[0] == healthy.get("/live")[0] == 200
    assert healthy.command(Swap(drafter=healthy.drafter("q70"), confirm_within_seconds=60))[1].accepted
    assert settled(healthy, "q70").candidate.state is CandidateState.SERVING
    assert healthy.command(Confirm(revision="r-q70", within_seconds=60))[1].accepted
    assert healthy.command(Promote(revision="r-q70"))[1].accepted
    status = healthy.status()
    assert (status.revision, status.promoted, status.candidate.state) == (
        "r-q70",
        "r-q70",
        CandidateState.PROMOTED,
    )
    healthy.command(Swap(drafter=healthy.drafter("dead"), confirm_within_seconds=60))
    status = settled(healthy, "dead")
    assert (status.candidate.state, status.candidate.reason) == (
        CandidateState.SWAPPED_BACK,
        "ProbeFailed: DeadDrafter",
    )
    assert status.revision == "r-q70"
    healthy.command(Swap(drafter=healthy.drafter("renamed"), confirm_within_seconds=60))
    assert settled(healthy, "renamed").candidate.reason == "ParametersNotFed", "by its headers"
    healthy.command(Swap(drafter=healthy.drafter("q40"), confirm_within_seconds=60))
    assert settled(healthy, "q40").candidate.reason == "TensorsNotConsumed", "by the strict load"
    healthy.command(Probe(id="p1", revision="r-q70"))
    assert healthy.wait(lambda status: status.probe.id == "p1", 10, "the probe").probe.passed


def test_what_the_preflight_found_is_told_when_it_is_asked_for(healthy):
    healthy.command(Swap(drafter=healthy.drafter("renamed"), confirm_within_seconds=60))
    named = settled(healthy, "renamed").preflight
    assert (named.revision, named.settings, named.report) == ("r-renamed", Preflight().settings, {})
    code, body = healthy.get("/preflight?revision=r-renamed")
    assert (code, len(body) <= 4096) == (200, True)
    found = PreflightResult.model_validate_json(body)
    assert found.at == named.at
    assert expanded(found.report).reason == "ParametersNotFed"
    whole = read(json.loads(healthy.get("/preflight")[1])["r-renamed"])
    assert (whole.reason, whole.layout) == ("ParametersNotFed", "SGLang EAGLE-3")
    assert healthy.get("/preflight?revision=r-nowhere")[0] == 404


def test_a_swap_says_how_its_drafter_is_judged(healthy):
    back = healthy.status().promoted
    for mode in (PreflightMode.OFF, PreflightMode.WARN):
        wish = Preflight(mode=mode)
        healthy.command(Swap(drafter=healthy.drafter("renamed"), confirm_within_seconds=60, preflight=wish))
        assert settled(healthy, "renamed").candidate.state is CandidateState.SERVING
        healthy.command(Rollback(revision="r-renamed", reason="Superseded"))
        healthy.wait(lambda status: status.revision == back, 10, "the way back")


def test_commands_are_fenced(healthy):
    swap = Swap(drafter=healthy.drafter("q70"), confirm_within_seconds=60)
    taken, before, logged = healthy.assignment, healthy.status().candidate, len(healthy.log)
    assert healthy.command(swap, key=Ed25519PrivateKey.generate())[0] == 401
    assert healthy.command(swap, pod_uid="another pod")[0] == 401
    assert healthy.command(swap, token="none")[0] == 401
    assert (
        healthy.command(swap, body=b'{"assignment": 99, "epoch": 1, "command": {"verb": "Drain"}}')[0] == 401
    )
    for body in (b"{}", b"not json", b'{"assignment": 9, "epoch": 1, "command": {"verb": "Explode"}}'):
        code, answer = healthy.post(
            body, sign(healthy.key, pod_uid="7a6f1a52-0000-4000-8000-000000000001", body=body)
        )
        assert (code, answer.reason) == (400, "CommandMalformed")
    assert healthy.post(b"x" * 100_000, "none")[0] == 413
    assert healthy.command(SetDrafting(drafting=Drafting.ON), assignment=taken + 3, epoch=5)[1].accepted
    code, answer = healthy.command(swap, assignment=taken + 2, epoch=5)
    assert (code, answer.accepted, answer.reason) == (409, False, "StaleAssignment")
    code, answer = healthy.command(swap, assignment=taken + 4, epoch=4)
    assert (code, answer.reason) == (409, "StaleEpoch")
    healthy.epoch = 5
    assert healthy.status().candidate == before
    assert "Traceback" not in healthy.log[logged:]


def test_a_repeated_swap_does_not_swap_again(healthy):
    swap = Swap(drafter=healthy.drafter("q70"), confirm_within_seconds=60)
    number = healthy.assignment + 1
    assert healthy.command(swap, assignment=number)[1].accepted
    settled(healthy, "q70")
    assert healthy.command(Rollback(revision="r-q70", reason="Test"), assignment=number)[1].accepted
    left = healthy.wait(lambda status: status.candidate.state is CandidateState.SWAPPED_BACK, 10, "back")
    assert healthy.command(swap, assignment=number)[1].accepted
    # The agent does one job after the other: when this one is done, a swap before it would be, too.
    assert healthy.command(Probe(id="after the swap", revision=left.revision))[1].accepted
    probed = healthy.wait(lambda status: status.probe.id == "after the swap", 10, "the probe")
    assert probed.candidate == left.candidate


def test_a_status_comes_as_soon_as_it_changes(healthy):
    serial = healthy.status().serial
    timer = threading.Timer(1, lambda: healthy.command(SetDrafting(drafting=Drafting.ON)))
    timer.start()
    began = time.monotonic()
    status = healthy.status(f"?since={serial}&wait=20")
    timer.join()
    assert status.serial != serial
    assert 0.5 < time.monotonic() - began < 10
    assert healthy.get("/status?since=1&wait=31")[0] == 422


def test_weights_that_changed_under_their_path_are_refused(healthy):
    folder = shutil.copytree(healthy.models / "q70", healthy.models / "retrained")
    swap = Swap(drafter=healthy.drafter("retrained"), confirm_within_seconds=60)
    healthy.command(swap)
    settled(healthy, "retrained")
    healthy.command(Rollback(revision="r-retrained", reason="Test"))
    healthy.wait(lambda status: status.candidate.state is CandidateState.SWAPPED_BACK, 10, "rolled back")
    shutil.copy(healthy.models / "q40" / "model.safetensors", folder / "model.safetensors")
    healthy.command(swap)
    status = healthy.wait(lambda status: status.candidate.state is CandidateState.REFUSED, 10, "refused")
    assert status.candidate.reason == "DigestChanged"


def test_the_warm_up_leaves_a_baseline_and_says_how_the_drafter_was_read(started):
    _, status = started
    assert [(speed.batch, speed.on, speed.off) for speed in status.warmup.speeds] == [
        (1, "100.0", "50.0"),
        (4, "100.0", "50.0"),
    ]
    assert status.warmup.answers is Agreement.SAME
    assert len(status.warmup.per_position) == status.steps == 3
    assert status.plain
    assert status.load == "2 of 3 tensors consumed by 2 parameters; t2d derived from d2t"
