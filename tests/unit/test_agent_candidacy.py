"""The life of a candidate in virtual time, against a slot that does as it is told."""

from __future__ import annotations

import asyncio

import pytest
from tests.support.agentcandidacy import Scene, running

from specdec.api.preflight import Preflight
from specdec.engine.agent import candidacy as subject
from specdec.engine.agent.failures import Blame, Failure
from specdec.engine.agent.loopback_client import EngineUnreachableError
from specdec.engine.protocol import (
    Candidate,
    CandidateState,
    Confirm,
    Drafting,
    Probe,
    ProbeResult,
    Promote,
    Rollback,
    SetDrafting,
)
from specdec.preflight.report import Report

pytestmark = pytest.mark.looptime


async def test_a_good_candidate_serves_until_it_is_confirmed_for_ever(monkeypatch):
    async with running(Scene(monkeypatch)) as scene:
        scene.swap("b")
        await asyncio.sleep(2)
        assert scene.candidate.state is CandidateState.SERVING
        assert (scene.candidate.swap_seconds, scene.candidate.requests_at_swap) == ("0.25", 5)
        promote = Promote(revision="b")
        assert scene.candidacy.judge(promote).accepted
        scene.candidacy.begin(promote)
        await asyncio.sleep(10_000)
        assert scene.candidate.state is CandidateState.PROMOTED
        assert (scene.slot.serves, scene.candidacy.home.overlay.drafter.revision) == ("b", "b")


async def test_nobody_confirms_and_it_goes_back_by_itself(monkeypatch):
    async with running(Scene(monkeypatch)) as scene:
        scene.swap("b", within=30)
        await asyncio.sleep(29)
        assert scene.slot.serves == "b"
        await asyncio.sleep(2)
        assert scene.slot.serves == "home"
        assert (scene.candidate.state, scene.candidate.reason) == (
            CandidateState.SWAPPED_BACK,
            "NotConfirmed",
        )


async def test_a_confirm_extends_the_time(monkeypatch):
    async with running(Scene(monkeypatch)) as scene:
        scene.swap("b", within=30)
        for _ in range(5):
            await asyncio.sleep(20)
            confirm = Confirm(revision="b", within_seconds=30)
            assert scene.candidacy.judge(confirm).accepted
            scene.candidacy.begin(confirm)
        assert scene.slot.serves == "b"
        await asyncio.sleep(31)
        assert scene.slot.serves == "home"


@pytest.mark.parametrize(
    ("fault", "reason"),
    [("dead", "DeadDrafter"), ("few", "TooFewCalls"), ("degenerate", "DegenerateAnswers")],
)
async def test_a_failed_probe_takes_it_back_at_once(monkeypatch, fault, reason):
    async with running(Scene(monkeypatch)) as scene:
        getattr(scene, fault).add("b")
        scene.swap("b")
        await asyncio.sleep(1.5)
        assert scene.slot.trail == ["b", "home"]
        assert scene.candidate.state is CandidateState.SWAPPED_BACK
        assert scene.candidate.reason == f"ProbeFailed: {reason}"
        assert scene.candidate.back_seconds


async def test_a_target_that_always_rambled_does_not_fail_its_drafters(monkeypatch):
    async with running(Scene(monkeypatch, degenerate=True)) as scene:
        scene.degenerate.add("b")
        scene.swap("b")
        await asyncio.sleep(2)
        assert scene.candidate.state is CandidateState.SERVING


@pytest.mark.parametrize("order", ["b", "commit b"])
async def test_a_refused_candidate_never_serves(monkeypatch, order):
    async with running(Scene(monkeypatch)) as scene:
        scene.slot.refused[order] = "TensorsNotConsumed"
        scene.swap("b")
        await asyncio.sleep(2)
        assert (scene.candidate.state, scene.candidate.reason) == (
            CandidateState.REFUSED,
            "TensorsNotConsumed",
        )
        assert (bool(scene.candidate.refused_at), scene.candidate.back_at) == (True, "")
        assert scene.slot.serves == "home"
        assert not scene.candidacy.judge(Promote(revision="b")).accepted
        assert not scene.candidacy.judge(Confirm(revision="b", within_seconds=9)).accepted


async def test_what_the_preflight_found_is_told_even_if_the_swap_fails_later(monkeypatch):
    async with running(Scene(monkeypatch)) as scene:
        scene.slot.reports["b"] = Report("b", "t", "0.5.23")
        scene.slot.refused["b"] = "ConfigDiffers"
        scene.swap("b")
        await asyncio.sleep(2)
        told = scene.board.status.preflight
        assert told is not None
        assert (told.revision, told.settings) == ("b", Preflight().settings)
        assert scene.candidate.reason == "ConfigDiffers"


async def test_a_newer_swap_ends_the_staging_of_the_older(monkeypatch):
    async with running(Scene(monkeypatch)) as scene:
        scene.slot.slow["b"] = 200
        scene.swap("b")
        await asyncio.sleep(1)
        scene.swap("c")
        await asyncio.sleep(3)
        assert scene.slot.trail == ["c"]
        assert (scene.candidate.revision, scene.candidate.state) == ("c", CandidateState.SERVING)


async def test_a_newer_swap_takes_over_from_a_serving_candidate(monkeypatch):
    async with running(Scene(monkeypatch)) as scene:
        scene.swap("b")
        await asyncio.sleep(2)
        scene.swap("c")
        await asyncio.sleep(2)
        assert scene.slot.trail == ["b", "c"]
        await asyncio.sleep(100)
        assert scene.slot.trail == ["b", "c", "home"]


async def test_a_refused_newcomer_leaves_no_unconfirmed_candidate_behind(monkeypatch):
    async with running(Scene(monkeypatch)) as scene:
        scene.slot.refused["c"] = "ShapeMismatch"
        scene.swap("b")
        await asyncio.sleep(2)
        scene.swap("c")
        await asyncio.sleep(1)
        assert (scene.slot.serves, scene.candidate.state) == ("home", CandidateState.REFUSED)


async def test_the_dead_man_switch_runs_while_another_is_staged(monkeypatch):
    async with running(Scene(monkeypatch)) as scene:
        scene.swap("b", within=10)
        await asyncio.sleep(5)
        scene.slot.slow["c"] = 200
        scene.swap("c")
        await asyncio.sleep(6)
        assert scene.slot.serves == "home"
        assert (scene.candidate.revision, scene.candidate.state) == ("c", CandidateState.REFUSED)
        assert scene.candidate.reason == "NotConfirmed"


async def test_the_dead_man_switch_runs_while_it_is_probed(monkeypatch):
    async with running(Scene(monkeypatch)) as scene:
        scene.probe_seconds = 20
        scene.swap("b", within=5)
        await asyncio.sleep(6)
        assert (scene.slot.serves, scene.candidate.reason) == ("home", "NotConfirmed")


@pytest.mark.parametrize(
    ("after", "state"),
    [(0.05, CandidateState.REFUSED), (0.5, CandidateState.SWAPPED_BACK), (5, CandidateState.SWAPPED_BACK)],
)
async def test_a_rollback_while_staging_probing_and_serving(monkeypatch, after, state):
    async with running(Scene(monkeypatch)) as scene:
        scene.swap("b")
        await asyncio.sleep(after)
        scene.candidacy.begin(Rollback(revision="b", reason="WorseThanActive"))
        await asyncio.sleep(0.5)
        assert scene.slot.serves == "home"
        assert (scene.candidate.state, scene.candidate.reason) == (state, "WorseThanActive")


async def test_a_swap_and_its_rollback_in_one_breath_leave_home_serving(monkeypatch):
    async with running(Scene(monkeypatch)) as scene:
        scene.swap("b")
        scene.candidacy.begin(Rollback(revision="b", reason="Aborted"))
        await asyncio.sleep(5)
        assert (scene.slot.trail, scene.candidate.reason) == ([], "Aborted")


async def test_of_swaps_in_one_breath_only_the_last_is_done(monkeypatch):
    async with running(Scene(monkeypatch)) as scene:
        for name in ("b", "c", "d"):
            scene.swap(name)
        await asyncio.sleep(5)
        assert scene.slot.trail == ["d"]
        assert (scene.candidate.revision, scene.candidate.state) == ("d", CandidateState.SERVING)


async def test_a_swap_in_the_last_step_of_a_way_back_is_not_ended_with_it(monkeypatch):
    async with running(Scene(monkeypatch)) as scene:
        scene.swap("b")
        await asyncio.sleep(5)
        scene.slot.slow["draft"] = 1
        scene.candidacy.begin(Rollback(revision="b", reason="Superseded"))
        await asyncio.sleep(0.5)
        assert scene.slot.serves == "home"
        scene.swap("b")
        await asyncio.sleep(5)
        assert (scene.candidate.state, scene.slot.serves) == (CandidateState.SERVING, "b")


async def test_a_rollback_of_another_ends_no_staging(monkeypatch):
    async with running(Scene(monkeypatch)) as scene:
        scene.slot.slow["b"] = 10
        scene.swap("b")
        await asyncio.sleep(1)
        scene.candidacy.begin(Rollback(revision="a", reason="Old"))
        await asyncio.sleep(15)
        assert scene.candidate.state is CandidateState.SERVING


async def test_a_commit_that_was_done_without_an_answer_is_undone(monkeypatch):
    async with running(Scene(monkeypatch)) as scene:
        scene.slot.silent_after_commit = True
        scene.swap("b")
        await asyncio.sleep(5)
        assert scene.slot.trail == ["b", "home"]
        assert scene.candidate.reason == "EngineUnreachable"


async def test_a_fault_of_the_agents_own_ends_no_stream(monkeypatch):
    async with running(Scene(monkeypatch)) as scene:
        monkeypatch.setattr(subject, "probe_failure", lambda *_, **__: 1 / 0)
        scene.swap("b")
        await asyncio.sleep(5)
        assert (scene.slot.serves, scene.candidate.reason) == ("home", "InternalError")


async def test_a_rollback_of_what_does_not_serve_does_nothing(monkeypatch):
    async with running(Scene(monkeypatch)) as scene:
        scene.swap("b")
        await asyncio.sleep(2)
        scene.candidacy.begin(Rollback(revision="a", reason="Old"))
        await asyncio.sleep(1)
        assert scene.slot.serves == "b"


async def test_drafting_off_stays_off_through_a_probe(monkeypatch):
    async with running(Scene(monkeypatch)) as scene:
        scene.candidacy.begin(SetDrafting(drafting=Drafting.OFF))
        await asyncio.sleep(0.1)
        assert (scene.slot.steps, scene.board.status.drafting) == (0, Drafting.OFF)
        scene.swap("b")
        await asyncio.sleep(3)
        assert scene.steps_while_probing == [3]
        assert (scene.slot.steps, scene.candidate.state) == (0, CandidateState.SERVING)
        scene.candidacy.begin(SetDrafting(drafting=Drafting.ON))
        await asyncio.sleep(0.1)
        assert scene.slot.steps == 3


async def test_a_dead_home_drafts_again_with_a_living_candidate_only(monkeypatch):
    async with running(Scene(monkeypatch, dead=True)) as scene:
        await scene.candidacy.apply_drafting()
        assert scene.slot.steps == 0
        scene.swap("b", within=5)
        await asyncio.sleep(3)
        assert (scene.slot.steps, scene.board.status.steps, scene.board.status.drafting) == (
            3,
            3,
            Drafting.ON,
        )
        await asyncio.sleep(5)
        assert (scene.slot.serves, scene.slot.steps, scene.board.status.steps) == ("home", 0, 0)


async def test_a_dead_home_is_forgotten_with_a_probe_that_passes_or_a_promotion(monkeypatch):
    for promoted in (False, True):
        async with running(Scene(monkeypatch, dead=True)) as scene:
            scene.board.change(reason=subject.DEAD)
            if promoted:
                scene.swap("b")
                await asyncio.sleep(2)
                assert scene.board.status.reason == subject.DEAD
                scene.candidacy.begin(Promote(revision="b"))
            else:
                scene.candidacy.begin(SetDrafting(drafting=Drafting.ON))
                scene.candidacy.begin(Probe(id="1", revision="home"))
                await asyncio.sleep(2)
            assert (scene.board.status.reason, scene.slot.steps) == ("", 3)


async def test_a_way_back_that_is_refused_turns_drafting_off(monkeypatch):
    async with running(Scene(monkeypatch)) as scene:
        scene.dead.add("b")
        scene.slot.refused["commit home"] = "DigestChanged"
        scene.swap("b")
        await asyncio.sleep(3)
        assert (scene.slot.serves, scene.slot.steps) == ("b", 0)
        assert scene.board.status.reason == "SwapBackRefused"


async def test_a_probe_on_demand_names_its_id(monkeypatch):
    async with running(Scene(monkeypatch)) as scene:
        assert scene.candidacy.judge(Probe(id="x", revision="b")).reason == "NotServing"
        scene.candidacy.begin(Probe(id="17", revision="home"))
        await asyncio.sleep(2)
        assert scene.board.status.probe == ProbeResult(id="17", revision="home", passed=True, calls=40)


async def test_an_engine_that_fell_silent_in_a_commit_is_asked_what_serves(monkeypatch):
    async with running(Scene(monkeypatch)) as scene:
        scene.swap("b")
        scene.slot.silent_until = asyncio.get_running_loop().time() + 10
        await asyncio.sleep(15)
        assert (scene.candidate.state, scene.candidate.reason) == (
            CandidateState.REFUSED,
            "EngineUnreachable",
        )
        scene.swap("c")
        await asyncio.sleep(2)
        assert scene.candidate.state is CandidateState.SERVING


async def test_an_engine_that_stays_silent_ends_the_candidacy(monkeypatch):
    scene = Scene(monkeypatch)
    scene.slot.silent_until = 10**9
    scene.swap("b")
    with pytest.raises(EngineUnreachableError):
        await asyncio.wait_for(scene.candidacy.run(), 100)


@pytest.mark.parametrize(
    ("state", "swapped_at", "expected"),
    [
        (CandidateState.STAGING, "", CandidateState.REFUSED),
        (CandidateState.SERVING, "2026", CandidateState.SWAPPED_BACK),
        (CandidateState.PROMOTED, "2026", None),
        (CandidateState.REFUSED, "", None),
    ],
)
async def test_what_an_engines_end_makes_of_its_candidate(state, swapped_at, expected):
    found = subject.gone(
        Candidate(revision="b", state=state, swapped_at=swapped_at), Failure("Killed", "", Blame.SURROUNDINGS)
    )
    assert (found["candidate"].state if found else None) == expected
    assert not found or found["candidate"].reason == "EngineEnded"


def test_an_unexplained_end_under_a_candidate_is_laid_at_its_door():
    crash = Failure("EngineExited", "IndexError", Blame.UNKNOWN)
    serving = Candidate(revision="b", state=CandidateState.PROBING, swapped_at="2026")
    staging = Candidate(revision="b", state=CandidateState.STAGING)
    assert subject.gone(serving, crash)["candidate"].reason == "EngineCrashed"
    assert subject.gone(staging, crash)["candidate"].reason == "EngineEnded"
