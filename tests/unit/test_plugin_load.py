"""Which requests a scheduler holds for users."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from specdec.engine.plugin.load import in_flight
from specdec.engine.plugin.settings import Settings
from specdec.engine.plugin.state import Engine
from specdec.engine.protocol import Drafting


def request(rid: str, *, finished: bool = False) -> SimpleNamespace:
    return SimpleNamespace(rid=rid, finished=lambda: finished)


def engine(**held: Any) -> Engine:
    nothing = {
        "waiting_queue": [],
        "grammar_manager": SimpleNamespace(grammar_queue=[]),
        "running_batch": None,
        "last_batch": None,
        "chunked_req": None,
    }
    made = Engine(Settings(Path("/run"), "secret", "r", "probe-", Drafting.ON))
    made.scheduler = SimpleNamespace(**nothing | held)
    return made


def test_an_idle_engine_holds_none():
    assert in_flight(engine()) == 0


def test_a_request_counts_once_wherever_it_waits_or_runs():
    batch = SimpleNamespace(reqs=[request("a"), request("done", finished=True)])
    held = engine(
        waiting_queue=[request("b"), request("probe-1")],
        grammar_manager=SimpleNamespace(grammar_queue=[request("c"), request("HEALTH_CHECK_1")]),
        running_batch=batch,
        last_batch=batch,
        chunked_req=request("d"),
    )
    assert in_flight(held) == 4


def test_a_request_whose_grammar_is_being_compiled_is_in_flight():
    assert in_flight(engine(grammar_manager=SimpleNamespace(grammar_queue=[request("a")]))) == 1
