"""The operator's own metrics, on /metrics."""

from __future__ import annotations

from prometheus_client import Counter, Gauge, Histogram

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
VERDICTS = Counter(
    "specdec_verdicts_total", "Changes of a revision's verdict.", ["namespace", "name", "judgement", "reason"]
)
SPEEDUP = Gauge(
    "specdec_speedup",
    "A request's tokens per second with drafting over those without, times acceptance.offFactor.",
    ["namespace", "name"],
)
ROLLBACKS = Counter(
    "specdec_rollbacks_total", "Rollback commands that an agent accepted.", ["namespace", "name"]
)
SWAP_SECONDS = Histogram(
    "specdec_swap_seconds",
    "Pause of an engine while a drafter is swapped in place.",
    ["namespace", "name"],
    buckets=(0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1, 2, 5),
)
AGENT_ERRORS = Counter("specdec_agent_errors_total", "Requests to agents that failed.", ["request"])
SERVERS = Gauge("specdec_servers", "Servers that have a running loop.")
LEADER = Gauge("specdec_leader", "1 while this process holds the Lease.")
