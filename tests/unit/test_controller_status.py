"""When a status is written, and what it may contain."""

from typing import Any

import pytest
from tests.support.controllerparts import server
from tests.support.fakekube import FakeKube

from specdec.api.base import Condition
from specdec.api.v1alpha1 import AcceptanceStatus, SpecDecodeServer, SpecDecodeServerStatus
from specdec.controller.clock import Clock
from specdec.controller.kube import ConflictError
from specdec.controller.report import unanswered, with_failures
from specdec.controller.status import StatusWriter, due, rendered
from specdec.controller.store import Store

LONG_AGO = 1e9


def status(message: str = "accept length 2.90 over 12 requests", **changes: Any) -> dict[str, Any]:
    ready = Condition(
        type="Ready",
        status=changes.pop("ready", "True"),
        observed_generation=1,
        last_transition_time=changes.pop("since", "2026-01-01T00:00:00Z"),
        reason="Serving",
        message=message,
    )
    acceptance = AcceptanceStatus(
        accept_length=changes.pop("length", "2.90"),
        accept_rate=changes.pop("rate", "0.63"),
        per_position=("0.80", "0.60"),
        requests=changes.pop("requests", 12),
        verdict=changes.pop("verdict", "Healthy"),
        message=message,
    )
    return rendered(
        SpecDecodeServerStatus(conditions=(ready,), acceptance=acceptance, phase="Serving", **changes)
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"verdict": "Unhealthy"},
        {"ready": "False"},
        {"rollout": "Probing"},
        {"observed_generation": 2},
        {"ready_replicas": 1},
        {"last_handled_request": "retry@a@1"},
        {"message": "no agent answers"},
    ],
)
def test_what_people_wait_for_is_written_at_once(changes: dict[str, Any]):
    assert due(status(), status(**changes), 0.0)


@pytest.mark.parametrize(
    ("changes", "seconds", "written"),
    [
        ({"length": "3.00"}, LONG_AGO, True),
        ({"length": "3.00"}, 59.0, False),
        ({"length": "2.99"}, LONG_AGO, False),
        ({"rate": "0.74"}, LONG_AGO, True),
        ({"requests": 5000}, LONG_AGO, False),
        ({"message": "accept length 2.91 over 40 requests"}, LONG_AGO, True),
        ({"message": "accept length 2.91 over 40 requests"}, 59.0, False),
        ({"since": "2026-02-02T00:00:00Z"}, LONG_AGO, False),
        ({}, LONG_AGO, False),
    ],
)
def test_numbers_are_written_once_a_minute_if_they_moved(
    changes: dict[str, Any], seconds: float, written: bool
):
    assert due(status(), status(**changes), seconds) is written


def test_a_first_status_is_written():
    assert due({}, status(), 0.0)


def test_foreign_text_is_clipped_and_loses_its_control_characters():
    wild = AcceptanceStatus(message="a\x1b[31mb\x00\r" + "x" * 9999)
    text = rendered(SpecDecodeServerStatus(acceptance=wild))["acceptance"]["message"]
    assert text.startswith("a [31mb  x")
    assert len(text) == 4096


def test_what_failed_is_said_in_a_condition():
    before = SpecDecodeServerStatus()
    assert with_failures(before, [], generation=3, now=0.0) is before
    (condition,) = with_failures(before, ["no", "way"], generation=3, now=0.0).conditions
    assert (condition.type, condition.status, condition.reason) == ("Reconciling", "True", "ApplyFailed")
    assert condition.message == "no; way"


def server_in(kube: FakeKube, store: Store) -> SpecDecodeServer:
    stored = kube.add(server())
    store.put(stored)
    return SpecDecodeServer.model_validate(stored)


async def test_the_same_status_is_written_once():
    kube, store = FakeKube(), Store()
    writer = StatusWriter(kube, store, Clock())
    seen = server_in(kube, store)
    wish = SpecDecodeServerStatus(phase="Serving")
    assert await writer.write(seen, wish)
    assert not await writer.write(seen, wish)
    assert kube.writes == [("patch", "SpecDecodeServer/status", "demo")]


async def test_a_status_computed_from_an_old_object_is_refused_even_if_the_watch_was_faster():
    kube, store = FakeKube(), Store()
    seen = server_in(kube, store)
    store.put(kube.add(server(replicas=3)))
    with pytest.raises(ConflictError):
        await StatusWriter(kube, store, Clock()).write(seen, SpecDecodeServerStatus(phase="Serving"))


def test_a_request_whose_record_could_not_be_written_stays_unanswered():
    planned = SpecDecodeServerStatus(
        phase="Serving", last_handled_request="undo@a@2", last_answer="undo: a serves"
    )
    before = SpecDecodeServerStatus(
        last_handled_request="retry@a@1", last_answer="retry: a gets another trial"
    )
    left = unanswered(planned, before)
    assert (left.last_handled_request, left.last_answer, left.phase) == (
        "retry@a@1",
        "retry: a gets another trial",
        "Serving",
    )
