from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import repeat
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.support.agentcandidacy import Scene, ref
from tests.unit.test_agent_plan import A, B, plan, state

from specdec.engine.agent import plan as plans
from specdec.engine.agent.board import Board
from specdec.engine.agent.loopback_client import EngineUnreachableError
from specdec.engine.agent.settings import Settings
from specdec.engine.agent.supervisor import LINGER_SECONDS, Supervisor
from specdec.engine.agent.vitals import Vitals
from specdec.engine.protocol import (
    Candidate,
    CandidateState,
    Command,
    Drafting,
    Envelope,
    Promote,
    SetDrafting,
    Swap,
)


@pytest.fixture
def supervisor(tmp_path: Path) -> Supervisor:
    made = Supervisor(Settings(pod_uid="u", state_dir=tmp_path), Board("u"), Vitals())
    made.plan, made.state = plan(3), state(5, A)
    return made


def envelope(command: Command, assignment: int = 6) -> Envelope:
    return Envelope(assignment=assignment, epoch=4, command=command)


def serve(supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch) -> Scene:
    scene = Scene(monkeypatch)
    scene.board = supervisor.board
    scene.candidacy._board = supervisor.board
    supervisor._running = SimpleNamespace(candidacy=scene.candidacy)  # type: ignore[assignment]
    return scene


def disk_full(*_: Any) -> None:
    raise OSError(28, "No space left on device")


async def test_a_command_is_written_down_before_it_is_done(supervisor, tmp_path):
    answer = await supervisor.take(envelope(SetDrafting(drafting=Drafting.OFF)), "h")
    assert answer.accepted
    assert plans.read_state(tmp_path) == state(6, A, Drafting.OFF)


async def test_a_mode_for_a_while_is_not_what_the_next_start_has(supervisor, tmp_path):
    command = SetDrafting(drafting=Drafting.OFF, for_seconds=10)
    assert (await supervisor.take(envelope(command), "h")).accepted
    assert plans.read_state(tmp_path) == state(6, A, Drafting.ON)


async def test_what_cannot_be_written_down_is_refused_and_the_dead_man_switch_stays(supervisor, monkeypatch):
    scene = serve(supervisor, monkeypatch)
    supervisor.board.change(candidate=Candidate(revision="b", state=CandidateState.SERVING))
    scene.candidacy._jobs.deadline = 77.0
    monkeypatch.setattr(plans, "write_whole", disk_full)
    answer = await supervisor.take(envelope(Promote(revision="b")), "h")
    assert (answer.reason, scene.candidacy._jobs.deadline) == ("StateNotWritten", 77.0)
    assert supervisor.state == state(5, A)


async def test_a_promotion_whose_writing_is_cut_off_leaves_the_dead_man_switch(supervisor, monkeypatch):
    scene = serve(supervisor, monkeypatch)
    supervisor.board.change(candidate=Candidate(revision="b", state=CandidateState.SERVING))
    scene.candidacy._jobs.deadline = 77.0
    begun = asyncio.Event()

    async def hangs(_: plans.Obeyed) -> None:
        begun.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(supervisor, "_keep", hangs)
    taking = asyncio.create_task(supervisor.take(envelope(Promote(revision="b")), "h"))
    await begun.wait()
    assert scene.candidacy._jobs.deadline is None, "a slow disk must not take a promoted drafter back"
    taking.cancel()
    await asyncio.gather(taking, return_exceptions=True)
    assert scene.candidacy._jobs.deadline == 77.0


async def test_a_promotion_of_what_is_promoted_leaves_the_candidates_dead_man_switch(supervisor, monkeypatch):
    scene = serve(supervisor, monkeypatch)
    supervisor.board.change(candidate=Candidate(revision="b", state=CandidateState.SERVING))
    scene.candidacy._jobs.deadline = 77.0
    assert (await supervisor.take(envelope(Promote(revision="a")), "h")).accepted
    assert scene.candidacy._jobs.deadline == 77.0


async def test_a_promotion_is_what_the_next_start_has(supervisor, monkeypatch, tmp_path):
    scene = serve(supervisor, monkeypatch)
    scene.candidacy.serving = await scene.slot.stage(ref("b"))
    supervisor.board.change(candidate=Candidate(revision="b", state=CandidateState.SERVING))
    scene.candidacy._jobs.deadline = 77.0
    assert (await supervisor.take(envelope(Promote(revision="b")), "h")).accepted
    kept = plans.read_state(tmp_path)
    assert (kept.revision, kept.drafter.revision, kept.assignment) == ("b", "b", 6)
    assert scene.candidacy._jobs.deadline is None
    assert supervisor.board.status.promoted == "b"


async def test_a_swap_needs_an_engine_that_serves(supervisor):
    swap = Swap(drafter=B, confirm_within_seconds=9)
    assert (await supervisor.take(envelope(swap), "h")).reason == "NotServing"
    supervisor._running = SimpleNamespace(candidacy=None)  # type: ignore[assignment]
    assert (await supervisor.take(envelope(swap), "h")).reason == "RestartNeeded"
    assert supervisor.state == state(5, A), "a refused command moves no fence"


async def test_a_promotion_of_what_is_promoted_is_fine_at_any_time(supervisor):
    assert (await supervisor.take(envelope(Promote(revision="a")), "h")).accepted
    assert (await supervisor.take(envelope(Promote(revision="b")), "i")).reason == "NotServing"


async def test_without_a_plan_no_command_is_taken(supervisor):
    supervisor.state = None
    assert (await supervisor.take(envelope(SetDrafting(drafting=Drafting.OFF)), "h")).reason == "NoPlan"


@pytest.mark.looptime
@pytest.mark.parametrize(
    ("failing", "reason"), [("_read_plan", "StateNotWritten"), ("_one_life", "NotStarted")]
)
async def test_a_start_that_fails_on_the_machine_says_on_what(supervisor, monkeypatch, failing, reason):
    async def nothing(*_: Any) -> None:
        """The plan was read."""

    async def fails(*_: Any) -> None:
        if failing == "_one_life":
            disk_full()
        plans.write_state(supervisor.settings.state_dir, state(5, A))

    monkeypatch.setattr(plans, "write_whole", disk_full)
    monkeypatch.setattr(supervisor, "_read_plan", nothing)
    monkeypatch.setattr(supervisor, failing, fails)
    running = asyncio.create_task(supervisor.run())
    await asyncio.sleep(0.5)
    running.cancel()
    assert supervisor.board.status.reason == reason
    assert "No space left on device" in supervisor.board.status.message


class Engine:
    """A child and its report in one: what it says to each look, and the look after which it ends."""

    def __init__(self, said: Iterator[int | None], looks: int = 1000) -> None:
        self._said = said
        self.looks = looks

    @property
    def running(self) -> bool:
        return self.looks > 0

    async def report(self) -> SimpleNamespace:
        self.looks -= 1
        count = next(self._said)
        if count is None:
            raise EngineUnreachableError("late")
        return SimpleNamespace(in_flight=count)


async def drained(supervisor: Supervisor, engine: Engine) -> float:
    """Drain; returns how long it waited beyond the time that it lingers."""
    supervisor._running = SimpleNamespace(loopback=engine, child=engine, candidacy=None)  # type: ignore[assignment]
    await supervisor.drain()
    return asyncio.get_running_loop().time() - LINGER_SECONDS


@pytest.mark.looptime
async def test_a_late_report_does_not_end_a_drain(supervisor):
    assert await drained(supervisor, Engine(iter([2, None, None, 1, 0]))) == pytest.approx(2, abs=0.1)


@pytest.mark.looptime
@pytest.mark.parametrize("count", [1, None])
async def test_a_drain_ends_with_its_time_or_with_the_engine(supervisor, count):
    assert await drained(supervisor, Engine(repeat(count), looks=4)) == pytest.approx(2, abs=0.1)
    supervisor.plan = plan(3).model_copy(update={"drain_seconds": 7})
    before = asyncio.get_running_loop().time()
    assert await drained(supervisor, Engine(repeat(count))) - before == pytest.approx(7, abs=0.1)
