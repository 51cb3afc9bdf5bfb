"""What happens to engine and agent from outside: each fault has a name, and all is as wished again without help."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.agentpod import AgentPod
from tests.support.engine import EngineSlot
from tests.support.enginepod import engine_pod, swap, traffic
from tests.support.models import expected_accept_length, make

from specdec.engine.agent.orphans import strays
from specdec.engine.agent.vitals import runs
from specdec.engine.protocol import CandidateState, Drafting, Phase, Promote, SetDrafting, Status

pytestmark = [pytest.mark.engine, pytest.mark.timeout(300)]

RESTART_SECONDS = 150


@pytest.fixture(scope="module")
def pod(slot: EngineSlot) -> Iterator[AgentPod]:
    """One pod for all faults, on a promoted drafter that is not the plan's."""
    slot.clear()
    with tempfile.TemporaryDirectory(prefix="pod-") as folder:
        models = Path(folder) / "models"
        make(models, ("kimi", "good", "q70"))
        with engine_pod(Path(folder), models) as made:
            made.write_plan("good")
            with socket.create_server(("127.0.0.1", made.engine_port)):
                made.start()
                made.wait(
                    lambda status: status.phase is Phase.FAILED, RESTART_SECONDS, "the port to be missed"
                )
            made.wait_serving(RESTART_SECONDS)
            yield made


def scheduler_pid(pod: AgentPod) -> int:
    """The process that holds the drafter."""
    for pid in strays(pod.folder / "run"):
        if b"sglang::scheduler" in (Path("/proc") / str(pid) / "cmdline").read_bytes():
            return pid
    raise AssertionError("no scheduler runs")


def ask_in_vain(pod: AgentPod) -> None:
    """Send a request that is cut off when the engine ends."""
    with contextlib.suppress(OSError):
        pod.chat("into the void")


def restarted(pod: AgentPod, boot: str) -> Status:
    return pod.wait(
        lambda status: status.boot != boot and status.phase is Phase.SERVING, RESTART_SECONDS, "restarted"
    )


def check(pod: AgentPod, status: Status, drafting: Drafting = Drafting.ON) -> None:
    """The promoted drafter, in the mode that was asked for, with the acceptance that is computed for it."""
    assert (status.revision, status.promoted, status.candidate and status.candidate.state) == (
        "r-q70", "r-q70", status.candidate and CandidateState.PROMOTED,
    )  # fmt: skip
    assert (status.drafting, status.steps) == (drafting, 3 if drafting is Drafting.ON else 0)
    assert pod.get("/ready")[0] == 200
    for number in range(12):
        assert pod.chat(f"after the fault {number}", tokens=64)[0] == 200
    calls, correct = traffic(pod.status(), "r-q70")
    if drafting is Drafting.OFF:
        assert calls == 0
    else:
        assert 1 + correct / calls == pytest.approx(expected_accept_length(0.7), abs=0.4)
    assert pod.termination_message == ""


def test_a_port_that_was_taken_is_named_and_taken_when_it_is_free(pod: AgentPod):
    failure = pod.status().failure
    assert failure is not None
    assert (failure.reason, failure.ended != "") == ("PortInUse", True), failure
    assert "the next start tries again" in failure.message
    assert swap(pod, "q70").state is CandidateState.SERVING
    assert pod.command(Promote(revision="r-q70"))[1].accepted
    check(pod, pod.status())


def test_a_killed_scheduler_is_named_and_started_again(pod: AgentPod):
    boot = pod.status().boot
    os.kill(scheduler_pid(pod), signal.SIGKILL)
    status = restarted(pod, boot)
    assert status.failure is not None
    assert status.failure.reason == "Killed", status.failure
    check(pod, status)


def test_a_stopped_engine_is_noticed_named_and_started_again(pod: AgentPod):
    boot, left = pod.status().boot, strays(pod.folder / "run")
    for pid in left:
        os.kill(pid, signal.SIGSTOP)
    hanging = threading.Thread(target=ask_in_vain, args=(pod,))
    hanging.start()
    failed = pod.wait(lambda status: status.phase is Phase.FAILED, 90, "the silence to be noticed")
    assert failed.reason == "EngineUnreachable"
    assert "gave no answer" in failed.message
    assert pod.get("/ready")[0] == 503
    status = restarted(pod, boot)
    assert not any(runs(pid, Path("/proc")) for pid in left)
    check(pod, status)
    hanging.join()


def test_a_killed_agent_leaves_an_engine_that_its_successor_ends(pod: AgentPod):
    assert pod.command(SetDrafting(drafting=Drafting.OFF))[1].accepted
    pod.wait(lambda status: status.steps == 0, 10, "off")
    boot, left = pod.status().boot, strays(pod.folder / "run")
    pod.kill_agent()
    assert all(runs(pid, Path("/proc")) for pid in left)
    pod.start()
    status = restarted(pod, boot)
    assert not any(runs(pid, Path("/proc")) for pid in left)
    assert status.failure is None
    check(pod, status, Drafting.OFF)
