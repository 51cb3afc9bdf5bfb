"""The operator's own metrics, on /metrics.

What is said of one server carries its namespace and name and goes with it; everything else has labels of a
few known values. So a scrape grows with the servers that exist, never with those that ever existed.
"""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import REGISTRY, Counter, Gauge, Histogram, disable_created_metrics
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector
from typing_extensions import override

from specdec.api.conditions import ConditionType, Reason, find
from specdec.api.v1alpha1 import AcceptanceStatus, SpecDecodeServerStatus
from specdec.rollout.world import Event

# A second series for every counter, which nothing here reads.
disable_created_metrics()  # type: ignore[no-untyped-call]  # it has no types

OF_A_SERVER = ("namespace", "name")
"""Labels of what is said of one server."""


class ServerGauge(Collector):
    """A gauge with a series for each server: a bare number each, where a labelled Gauge keeps a kilobyte and a lock."""

    def __init__(self, name: str, documentation: str) -> None:
        self.name, self.documentation = name, documentation
        self._values: dict[tuple[str, str], float] = {}
        REGISTRY.register(self)

    def set(self, server: tuple[str, str], value: float | None) -> None:
        """Show a value; None shows nothing."""
        if value is None:
            self._values.pop(server, None)
        else:
            self._values[server] = value

    def describe(self) -> Iterable[GaugeMetricFamily]:
        """Name it, without a series."""
        return [GaugeMetricFamily(self.name, self.documentation, labels=OF_A_SERVER)]

    @override
    def collect(self) -> Iterable[GaugeMetricFamily]:
        (family,) = self.describe()
        # A copy: a scrape runs in a thread of its own.
        for server, value in list(self._values.items()):
            family.add_metric(server, value)
        return [family]


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
    "specdec_verdicts_total", "Changes of a revision's verdict.", [*OF_A_SERVER, "judgement", "reason"]
)
ROLLBACKS = Counter(
    "specdec_rollbacks_total",
    "Drafters that were taken back, by the operator or by their agents.",
    OF_A_SERVER,
)
SERVER_READY = ServerGauge(
    "specdec_server_ready", "1 while all wanted engines serve, or of several all but one."
)
SERVER_STALLED = ServerGauge(
    "specdec_server_stalled", "1 while the operator can't get to what the spec says without a person."
)
SERVER_DRAFTER_CURRENT = ServerGauge(
    "specdec_server_drafter_current", "1 while the drafter that serves is the one of the spec."
)
SERVER_CANDIDATE = ServerGauge("specdec_server_candidate", "1 while a candidate is on trial, unconfirmed.")
SERVER_DRAFTING_OFF = ServerGauge(
    "specdec_server_drafting_off",
    "1 while drafting is off because the spec says so or no drafter is known to be good; not while it only does not pay"
    " (SlowerThanNoDrafting).",
)
SERVER_ACCEPT_LENGTH = ServerGauge(
    "specdec_server_accept_length",
    "Accept length that live traffic shows, 1 and more; absent while unknown.",
)
SERVER_SPEEDUP = ServerGauge(
    "specdec_server_speedup",
    "A request's tokens per second with drafting over those without, times acceptance.offFactor; absent while unknown.",
)

_CONDITIONS = {
    ConditionType.READY: SERVER_READY,
    ConditionType.STALLED: SERVER_STALLED,
    ConditionType.DRAFTER_CURRENT: SERVER_DRAFTER_CURRENT,
}
_SHOWN = (
    *_CONDITIONS.values(),
    SERVER_CANDIDATE,
    SERVER_DRAFTING_OFF,
    SERVER_ACCEPT_LENGTH,
    SERVER_SPEEDUP,
)


def show(server: tuple[str, str], status: SpecDecodeServerStatus, events: Iterable[Event] = ()) -> None:
    """Show what a pass made of a server."""
    # From nought on: Prometheus sees no increase in a series that begins with its first rollback.
    rollbacks = ROLLBACKS.labels(*server)
    rollbacks.inc(sum(event.reason == Reason.ROLLED_BACK for event in events))
    for type_, gauge in _CONDITIONS.items():
        condition = find(status.conditions, type_)
        gauge.set(server, condition is not None and condition.status == "True")
    SERVER_CANDIDATE.set(server, status.candidate is not None)
    SERVER_DRAFTING_OFF.set(server, bool(status.drafting_off_since))
    shown = status.acceptance or AcceptanceStatus()
    SERVER_ACCEPT_LENGTH.set(server, float(shown.accept_length) if shown.accept_length else None)
    SERVER_SPEEDUP.set(server, float(shown.speedup) if shown.speedup else None)


def forget(server: tuple[str, str]) -> None:
    """Drop every series of a server that has no loop any more."""
    for gauge in _SHOWN:
        gauge.set(server, None)
    labels = dict(zip(OF_A_SERVER, server, strict=True))
    for counter in (VERDICTS, ROLLBACKS):
        counter.remove_by_labels(labels)
