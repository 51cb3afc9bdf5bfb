"""Two engines on the real cluster: a candidate serves beside the active drafter, and is held against it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Any

import pytest
from tests.demo.traffic import Traffic
from tests.support import install
from tests.support.kubectl import condition, get, wait_condition, wait_for
from tests.support.servers import apply_server, engine_pods, is_ready, restarts, server, wait_current

from specdec.acceptance.routing import LEAST_FREEDOM, WINDOW_SECONDS

pytestmark = [pytest.mark.cluster, pytest.mark.nightly, pytest.mark.timeout(600)]

RATE = 3.0
"""Users' requests a second, over both engines."""
SEEN_SECONDS = int((LEAST_FREEDOM + 2) * WINDOW_SECONDS)
"""Two engines that have served one drafter for so long have shown how requests are dealt."""


def two(namespace: str, drafter: str, version: str, soak: int) -> dict[str, Any]:
    """A server of two engines, small enough for a node of two cores; no drafter here is below its floor."""
    return server(
        namespace, drafter, version, replicas=2,
        acceptance={"minAcceptLength": "1.5", "maxRegression": "0.05"},
        rollout={"minSoakSeconds": soak},
        engine={"resources": {"requests": {"cpu": "400m"}}},
    )  # fmt: skip


@pytest.fixture(scope="module")
def traffic(namespace: str) -> Iterator[Traffic]:
    """Users of two engines, which have served v1 for long enough to know how requests are dealt."""
    apply_server(two(namespace, "q70", "v1", SEEN_SECONDS))
    wait_for("two engines", 300, lambda: len(ready(namespace)) == 2)
    load = Traffic(namespace, "kimi", RATE)
    try:
        wait_for("v1 to be promoted", SEEN_SECONDS + 60, lambda: last_good(namespace) == "v1")
        yield load
    finally:
        load.stop()


def last_good(namespace: str) -> str:
    """Version that was promoted last."""
    return str(get("sds", "kimi", namespace)["status"].get("lastGood", {}).get("version", ""))


def ready(namespace: str) -> list[str]:
    """UIDs of the engine pods that are ready."""
    return [pod["metadata"]["uid"] for pod in engine_pods(namespace) if is_ready(pod)]


def spread(traffic: Traffic, revision: str) -> list[int]:
    """On how many engines a revision served, each time that it changed."""
    serves: dict[str, bool] = {}
    counts = []
    for record in traffic.statuses():
        serves[record["address"]] = record["status"].get("revision") == revision
        counts.append(sum(serves.values()))
    return [count for count, _ in groupby(counts)]


def test_a_better_drafter_serves_on_one_engine_first_and_then_on_both(namespace: str, traffic: Traffic):
    pods = ready(namespace)
    apply_server(two(namespace, "good", "v2", 3))
    wait_current(namespace)
    record = install.verdict(namespace, "kimi", "v2")
    assert record.outcome == "Promoted"
    wait_for("v2 on both, one after the other", 10, lambda: spread(traffic, record.name) == [0, 1, 2])
    assert ready(namespace) == pods


def test_a_worse_one_is_told_from_the_other_engine_and_leaves_the_one_that_it_was_on(
    namespace: str, traffic: Traffic
):
    pods = ready(namespace)
    apply_server(two(namespace, "q70", "v3", 60))
    thing = wait_condition("kimi", namespace, "Stalled", "True", 120)
    assert condition(thing, "DrafterCurrent")["reason"] == "DrafterRejected"
    assert thing["status"]["active"]["version"] == "v2"
    record = install.verdict(namespace, "kimi", "v3")
    print(record.message)
    assert (record.outcome, record.reason) == ("Rejected", "WorseThanActive")
    assert "of v2 beside it" in record.message
    wait_for("v3 on one, and on none", 10, lambda: spread(traffic, record.name) == [0, 1, 0])
    assert ready(namespace) == pods


def test_no_user_noticed_and_no_engine_was_restarted(namespace: str, traffic: Traffic):
    end = traffic.stop()
    assert [request["error"] for request in traffic.requests() if request["error"]] == []
    assert end["failed"] == 0
    assert end["requests"] > RATE * SEEN_SECONDS
    assert {record["status"]["phase"] for record in traffic.statuses()} == {"Serving"}
    assert [restarts(namespace, f"kimi-{number}") for number in range(2)] == [0, 0]
