"""The operator's own metrics, on /metrics.

What is said of one server carries its namespace and name and goes with it; everything else has labels of a
few known values. So a scrape grows with the servers that exist, never with those that ever existed.
"""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import Counter, Gauge, Histogram, disable_created_metrics

from specdec.api.conditions import ConditionType, Reason, find
from specdec.api.v1alpha1 import AcceptanceStatus, SpecDecodeServerStatus
from specdec.rollout.world import Event

# A second series for every counter, which nothing here reads.
disable_created_metrics()  # type: ignore[no-untyped-call]  # it has no types

_SERVER = ("namespace", "name")

RECONCILE_SECONDS = Histogram(
    "specdec_reconcile_seconds",
    "Duration of one pass over one server.",
    ["outcome"],
    buckets=(0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 30),
)
API_WRITES = Counter(
    "specdec_api_writes_total",
    "Writes to the Kubernetes API by verb, kind and status code.",
    ["verb", "kind", "code"],
)
POLL_LAG_SECONDS = Histogram(
    "specdec_poll_lag_seconds",
    "How long an agent that was due to be asked waited for its turn.",
    buckets=(0.001, 0.01, 0.05, 0.1, 0.25, 0.5, 1, 2, 5, 30),
)
SWAP_SECONDS = Histogram(
    "specdec_swap_seconds",
    "Pause of an engine while a drafter is swapped in place.",
    buckets=(0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1, 2, 5),
)
AGENT_ERRORS = Counter("specdec_agent_errors_total", "Requests to agents that failed.", ["request"])
SERVERS = Gauge("specdec_servers", "Servers that have a running loop.")
LEADER = Gauge("specdec_leader", "1 while this process holds the Lease.")

VERDICTS = Counter(
    "specdec_verdicts_total", "Changes of a revision's verdict.", [*_SERVER, "judgement", "reason"]
)
ROLLBACKS = Counter(
    "specdec_rollbacks_total", "Drafters that were taken back, by the operator or by their agents.", _SERVER
)
SERVER_READY = Gauge("specdec_server_ready", "1 while users' requests are served.", _SERVER)
SERVER_STALLED = Gauge(
    "specdec_server_stalled",
    "1 while the operator can't get to what the spec says without a person.",
    _SERVER,
)
SERVER_DRAFTER_CURRENT = Gauge(
    "specdec_server_drafter_current", "1 while the drafter that serves is the one of the spec.", _SERVER
)
SERVER_CANDIDATE = Gauge("specdec_server_candidate", "1 while a candidate is on trial, unconfirmed.", _SERVER)
SERVER_DRAFTING_OFF = Gauge(
    "specdec_server_drafting_off", "1 while drafting is switched off in place.", _SERVER
)
SERVER_ACCEPT_LENGTH = Gauge(
    "specdec_server_accept_length",
    "Accept length that live traffic shows, 1 and more; absent while unknown.",
    _SERVER,
)
SERVER_SPEEDUP = Gauge(
    "specdec_server_speedup",
    "A request's tokens per second with drafting over those without, times acceptance.offFactor; absent while unknown.",
    _SERVER,
)

_CONDITIONS = {
    ConditionType.READY: SERVER_READY,
    ConditionType.STALLED: SERVER_STALLED,
    ConditionType.DRAFTER_CURRENT: SERVER_DRAFTER_CURRENT,
}
OF_A_SERVER = (
    VERDICTS,
    ROLLBACKS,
    *_CONDITIONS.values(),
    SERVER_CANDIDATE,
    SERVER_DRAFTING_OFF,
    SERVER_ACCEPT_LENGTH,
    SERVER_SPEEDUP,
)
"""What goes when its server goes."""


def show(server: tuple[str, str], status: SpecDecodeServerStatus, events: Iterable[Event] = ()) -> None:
    """Show what a pass made of a server."""
    # From nought on: Prometheus sees no increase in a series that begins with its first rollback.
    rollbacks = ROLLBACKS.labels(*server)
    rollbacks.inc(sum(event.reason == Reason.ROLLED_BACK for event in events))
    for type_, gauge in _CONDITIONS.items():
        condition = find(status.conditions, type_)
        gauge.labels(*server).set(condition is not None and condition.status == "True")
    SERVER_CANDIDATE.labels(*server).set(status.candidate is not None)
    SERVER_DRAFTING_OFF.labels(*server).set(bool(status.drafting_off_since))
    shown = status.acceptance or AcceptanceStatus()
    for gauge, seen in ((SERVER_ACCEPT_LENGTH, shown.accept_length), (SERVER_SPEEDUP, shown.speedup)):
        if seen:
            gauge.labels(*server).set(float(seen))
        else:
            gauge.remove_by_labels(_labels(server))


def forget(server: tuple[str, str]) -> None:
    """Drop every series of a server that has no loop any more."""
    for metric in OF_A_SERVER:
        metric.remove_by_labels(_labels(server))


def _labels(server: tuple[str, str]) -> dict[str, str]:
    return dict(zip(_SERVER, server, strict=True))
