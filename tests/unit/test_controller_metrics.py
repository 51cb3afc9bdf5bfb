"""The operator's metrics: names by Prometheus' conventions, and series that end with their server."""

from __future__ import annotations

import re
from itertools import product

import pytest
from prometheus_client import generate_latest
from tests.support.metrics import Declared, operator_metrics, plugin_declared

from specdec.acceptance.verdict import Doubt, Judgement, Layer
from specdec.api.base import Condition
from specdec.api.conditions import ConditionType, Reason
from specdec.api.v1alpha1 import AcceptanceStatus, RevisionStatus, SpecDecodeServerStatus
from specdec.controller import metrics
from specdec.rollout.world import Event

SERVERS = [(f"team-{number % 40}", f"server-{number}") for number in range(1000)]
SERIES_OF_A_SERVER = 29
SERIES_OF_THE_PROCESS = 400
KNOWN_LABELS = {
    "outcome", "verb", "kind", "code", "request", "namespace", "name", "judgement", "reason",
    "revision", "steps", "source", "position",
}  # fmt: skip
DECLARED = [*operator_metrics(), *plugin_declared()]


def exposed() -> list[str]:
    lines = [line for line in generate_latest().decode().splitlines() if line.startswith("specdec_")]
    return [line for line in lines if "_created" not in line]


def status(**fields: object) -> SpecDecodeServerStatus:
    ready = Condition(
        type=ConditionType.READY,
        status="True",
        observed_generation=1,
        last_transition_time="2026-01-01T00:00:00Z",
        reason=Reason.SERVING,
        message="",
    )
    return SpecDecodeServerStatus(conditions=(ready,)).model_copy(update=fields)


def value(name: str, server: tuple[str, str]) -> float | None:
    from prometheus_client import REGISTRY

    return REGISTRY.get_sample_value(name, {"namespace": server[0], "name": server[1]})


@pytest.mark.parametrize("metric", DECLARED, ids=lambda metric: next(iter(metric.describe())).name)
def test_names_and_units_are_as_prometheus_wants_them(metric: Declared):
    (family,) = metric.describe()
    assert re.fullmatch(r"specdec_[a-z]+(_[a-z]+)*", family.name)
    assert family.documentation.endswith(".")
    assert family.type != "histogram" or family.name.endswith("_seconds"), "a base unit at the end"
    assert not re.search(r"_(ms|milliseconds|minutes|percent|count|total)$", family.name)
    assert set(getattr(metric, "_labelnames", ())) <= KNOWN_LABELS


def test_a_thousand_servers_have_bounded_series_and_leave_none():
    before = len(exposed())
    assert before < SERIES_OF_THE_PROCESS
    shown = status(candidate=RevisionStatus(revision="r2"), acceptance=AcceptanceStatus(accept_length="2.31"))
    for server in SERVERS:
        metrics.show(server, shown)
        metrics.ROLLBACKS.labels(*server).inc()
        for judgement, reason in product(Judgement, [*Layer, *Doubt]):
            if (judgement is Judgement.UNKNOWN) == (reason in Doubt):
                metrics.VERDICTS.labels(*server, judgement, reason).inc()
    assert len(exposed()) - before <= SERIES_OF_A_SERVER * len(SERVERS)
    for server in SERVERS:
        metrics.forget(server)
    assert len(exposed()) == before


def test_a_server_is_shown_as_its_status_says():
    server = ("serving", "shown")
    metrics.show(server, status(drafting_off_since="2026-01-01T00:00:00Z"))
    read = {
        ending: value(f"specdec_server_{ending}", server)
        for ending in ("ready", "stalled", "candidate", "drafting_off")
    }
    assert read == {"ready": 1, "stalled": 0, "candidate": 0, "drafting_off": 1}
    metrics.forget(server)


def test_an_unknown_accept_length_is_no_figure():
    server = ("serving", "unknown")
    metrics.show(server, status(acceptance=AcceptanceStatus(accept_length="2.31")))
    assert value("specdec_server_accept_length", server) == 2.31
    metrics.show(server, status())
    assert value("specdec_server_accept_length", server) is None
    metrics.forget(server)


def test_rollbacks_are_counted_from_nought_by_the_events_that_tell_of_them():
    server = ("serving", "rolled-back")
    metrics.show(server, status(), [Event("Warning", Reason.REFUSED, "v3 is refused")])
    assert value("specdec_rollbacks_total", server) == 0
    metrics.show(server, status(), [Event("Warning", Reason.ROLLED_BACK, "rolled back v5 -> v2")])
    assert value("specdec_rollbacks_total", server) == 1
    metrics.forget(server)


def test_names_of_servers_can_not_break_a_scrape():
    hostile = ("serving", 'a"} 1\nspecdec_leader 7\n#')
    metrics.show(hostile, status())
    lines = exposed()
    assert all(
        re.fullmatch(r'specdec_\w+(\{([a-z]+="(\\.|[^"\\])*",?)*\})? [-+0-9.eE]+', line) for line in lines
    )
    assert "specdec_leader 7" not in lines
    metrics.forget(hostile)
