from __future__ import annotations

import asyncio

from specdec.api.preflight import Preflight
from specdec.engine.agent.board import LOAD_CHARACTERS, Board, fitted, with_report
from specdec.engine.loopback import Report
from specdec.engine.protocol import (
    Agreement,
    Candidate,
    CandidateState,
    Counters,
    Drafting,
    FailureReport,
    Phase,
    ProbeResult,
    Source,
    Speed,
    Status,
    WarmUp,
)
from specdec.preflight.finding import Finding, Severity
from specdec.preflight.report import Report as Judged


def counters(revision: str, source: Source = Source.TRAFFIC, steps: int = 3) -> Counters:
    large = 10**9
    return Counters(
        revision=revision,
        steps=steps,
        source=source,
        requests=large,
        calls=large,
        correct=(large,) * steps,
        tokens=large,
        seconds="123456.789012",
        dd=large,
        dc=large,
        cc=large,
        finished_drafts=large,
        finished_calls=large,
    )


def report(**fields: object) -> Report:
    return Report.model_validate(
        {"rank": 0, "sglang": "0", "patches": [], "revision": "b", "steps": 3, "states": [0, 3], **fields}
    )


def test_the_serial_changes_with_what_matters():
    board = Board("uid")
    first = board.status.serial
    board.change(in_flight=3, progress_at="2026-01-01T00:00:00Z")
    assert board.status.serial == first
    board.change(phase=Phase.SERVING)
    board.change(phase=Phase.SERVING)
    assert board.status.serial == first + 1


def test_a_preflight_is_named_in_the_status_and_told_when_asked_for():
    board = Board("uid")
    findings = tuple(Finding(f"Code{n}", Severity.ERROR, "x" * 900, "y" * 900, "h", "s") for n in range(40))
    board.judged(Judged("d", "t", "0.5.23", findings=findings), "c", Preflight())
    told = fitted(board.status.model_copy(update={"counters": (counters("a"),)}))
    assert b'"preflight":{"revision":"c"' in told
    assert b"Code0" not in told
    found, whole = board.reports["c"]
    assert len(found.model_dump_json(by_alias=True)) <= 4096
    assert found.at == board.status.preflight.at
    assert len(whole.findings) == 40


async def test_a_waiter_wakes_with_the_change():
    board = Board("uid")
    waiting = asyncio.create_task(board.wait(board.status.serial, 10))
    await asyncio.sleep(0.01)
    await asyncio.to_thread(board.change, phase=Phase.SERVING)
    await asyncio.wait_for(waiting, 1)


async def test_a_waiter_for_an_old_serial_does_not_wait():
    board = Board("uid")
    await asyncio.wait_for(board.wait(board.status.serial - 1, 10), 1)


def test_the_report_brings_what_only_the_plugin_knows():
    status = with_report(Board("uid").status, report(inFlight=4, counters=[counters("b")]))
    assert (status.revision, status.steps, status.drafting, status.in_flight) == ("b", 3, Drafting.ON, 4)
    off = with_report(Board("uid").status, report(steps=0, inFlight=1))
    assert (off.revision, off.drafting) == ("b", Drafting.OFF)


def test_an_idle_engine_is_shown_with_the_steps_that_its_next_batch_has():
    board = Board("uid")
    board.change(steps=0)
    assert with_report(board.status, report(steps=3)).steps == 0


def test_an_engine_without_a_drafter_serves_no_revision():
    assert with_report(Board("uid").status, report(states=[], steps=0)).revision == ""


def worst(rows: tuple[Counters, ...]) -> Status:
    """Status with everything at its longest."""
    long = "x" * 240
    probe = ProbeResult(
        id="p" * 36,
        revision="b" * 20,
        accept_length="3.999",
        calls=160,
        seconds="20.000",
        message=long,
        at="2" * 27,
    )
    warmup = WarmUp(
        **probe.model_dump(),
        per_position=("0.99",) * 16,
        speeds=(Speed(batch=1, on="12345.6", off="12345.6"), Speed(batch=4, on="12345.6", off="12345.6")),
        answers=Agreement.DIFFERENT,
    )
    candidate = Candidate(
        revision="cand",
        state=CandidateState.SWAPPED_BACK,
        reason="ProbeFailed: DeadDrafter",
        message=long,
        digest="sha256:" + "0" * 64,
        swap_seconds="0.123456",
        back_seconds="0.123",
        swapped_at="2" * 27,
        back_at="2" * 27,
        requests_at_swap=48,
    )
    return Status(
        serial=10**13,
        pod_uid="7a6f1a52-0000-4000-8000-000000000001",
        boot="01234567",
        phase=Phase.SERVING,
        reason="SwapBackRefused",
        message=long,
        progress_at="2" * 27,
        engine="sglang-0.5.23+cpu+specdec-0.1.0",
        assignment=123456,
        epoch=42,
        revision="serving",
        promoted="serving",
        digest="sha256:" + "0" * 64,
        target_digest="sha256:" + "0" * 64,
        steps=3,
        max_steps=3,
        drafting=Drafting.ON,
        candidate=candidate,
        probe=probe,
        warmup=warmup,
        plain=True,
        load="x" * LOAD_CHARACTERS,
        counters=rows,
    )


def test_the_status_fits_whatever_happened():
    rows = tuple(counters(f"old-{n}", source) for n in range(20) for source in Source)
    rows += (counters("serving"), counters("cand"), counters("serving", Source.PROBE))
    written = fitted(worst(rows))
    assert len(written) <= 2048
    kept = Status.model_validate_json(written).counters
    assert [(row.revision, row.source) for row in kept][:1] == [("serving", Source.TRAFFIC)]


def test_a_short_status_keeps_everything():
    status = worst((counters("serving"),)).model_copy(update={"warmup": None, "candidate": None})
    assert Status.model_validate_json(fitted(status)) == status


def test_the_lines_of_a_failure_are_left_out_first():
    failure = FailureReport(
        reason="OutOfMemory", message="m" * 100, ended="exit code 1", lines=("x" * 160,) * 6
    )
    status = Status(serial=1, pod_uid="u", boot="b", phase=Phase.SERVING, progress_at="", failure=failure)
    assert Status.model_validate_json(fitted(status)) == status
    rows = tuple(counters(name) for name in "ab")
    full = status.model_copy(
        update={"counters": rows, "message": "n" * 240, "promoted": "a", "revision": "b"}
    )
    kept = Status.model_validate_json(fitted(full))
    assert kept.failure == failure.model_copy(update={"lines": ()})
    assert set(kept.counters) == set(rows)


def test_what_the_warm_up_said_is_left_out_before_news_is_cut():
    status = worst((counters("serving"),))
    status = status.model_copy(update={"message": "", "probe": None, "load": ""})
    assert len(status.model_dump_json(by_alias=True, exclude_defaults=True)) > 2048 > len(fitted(status))
    kept = Status.model_validate_json(fitted(status))
    assert kept.warmup is not None
    assert (kept.candidate, kept.warmup.message) == (status.candidate, "")
    assert kept.warmup.speeds
