"""The API server is away from a running operator, in real time, with a real engine and its users.

`tests/faults/test_outages.py` has the same for ten minutes of virtual time; here are the client libraries and their
connections as well.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from tests.demo.traffic import Traffic
from tests.support import install, outages
from tests.support.kubectl import condition, get, wait_condition, wait_for
from tests.support.servers import apply_server, candidate, engine_pods, restarts, server, wait_current

pytestmark = [pytest.mark.cluster, pytest.mark.nightly, pytest.mark.timeout(600)]

AWAY_SECONDS = 60
BACK_SECONDS = 2.0
"""Within so long of the API server's return the operator has acted."""
DEAF_SECONDS = 75.0
"""Within so long it hears of what no watch has told it."""


@pytest.fixture(scope="module")
def traffic(namespace: str) -> Iterator[Traffic]:
    """Users of one engine whose drafter is promoted."""
    apply_server(server(namespace, "good", "v1"))
    wait_condition("kimi", namespace, "Ready", "True", 300)
    load = Traffic(namespace, "kimi")
    try:
        wait_for("v1 to be promoted", 120, lambda: get("sds", "kimi", namespace)["status"].get("lastGood"))
        yield load
    finally:
        load.stop()


@pytest.fixture(scope="module")
def engine(namespace: str, traffic: Traffic) -> str:
    """UID of the pod that serves from the first to the last."""
    return uid(namespace)


def uid(namespace: str) -> str:
    (pod,) = engine_pods(namespace)
    return str(pod["metadata"]["uid"])


def address() -> str:
    return str(install.pod()["status"]["podIP"])


def acted(since: datetime, seconds: float) -> float:
    """Wait for the operator's first write after a moment; returns how long it took, seconds."""
    wait_for("the operator to write", seconds + 30, lambda: install.writes(since))
    waited = (install.writes(since)[0]["at"] - since).total_seconds()
    print(f"the first write came after {waited:.2f} s")
    return waited


def heard(namespace: str) -> bool:
    """Whether the operator has looked at the newest spec."""
    thing = get("sds", "kimi", namespace)
    return bool(thing["status"]["observedGeneration"] == thing["metadata"]["generation"])


def served(traffic: Traffic, begin: datetime) -> list[str]:
    """Errors of users' requests since a moment, of which there must be some."""
    asked = [request for request in traffic.requests() if request["start"] > begin.timestamp()]
    assert asked
    return [request["error"] for request in asked if request["error"]]


def rejected(namespace: str, version: str) -> str:
    """Wait until a version is taken back for good; returns why it was."""
    thing = wait_condition("kimi", namespace, "Stalled", "True", 120)
    assert condition(thing, "Ready")["status"] == "True"
    wait_condition("kimi", namespace, "Reconciling", "False", 60)
    return install.verdict(namespace, "kimi", version).reason


@pytest.mark.usefixtures("engine")
def test_a_bad_candidate_that_serves_when_it_goes_is_gone_before_it_returns(namespace: str, traffic: Traffic):
    apply_server(server(namespace, "q40", "v2", rollout={"confirmWithinSeconds": 20}))
    wait_for("the candidate to serve", 60, lambda: candidate(namespace, "Serving"))
    begin = datetime.now(UTC)
    with outages.refused(address()):
        wait_for("the candidate to be taken back", AWAY_SECONDS, lambda: candidate(namespace, "SwappedBack"))
        time.sleep(max(0.0, AWAY_SECONDS - (datetime.now(UTC) - begin).total_seconds()))
        assert install.writes(begin + timedelta(seconds=1)) == []
        back = datetime.now(UTC)
    assert acted(back, BACK_SECONDS) <= BACK_SECONDS
    assert rejected(namespace, "v2") == "BelowFloor"
    assert served(traffic, begin) == []


@pytest.mark.usefixtures("engine")
def test_what_was_applied_while_nothing_was_heard_is_begun_at_its_return(namespace: str, traffic: Traffic):
    begin = datetime.now(UTC)
    with outages.silent(address()):
        # No watch of before is open any more: how soon one hears of a return rests with its server's retransmissions.
        time.sleep(DEAF_SECONDS)
        apply_server(server(namespace, "dead", "v3"))
        assert install.writes(begin + timedelta(seconds=1)) == []
        back = datetime.now(UTC)
    assert acted(back, BACK_SECONDS) <= BACK_SECONDS
    assert rejected(namespace, "v3") == "DeadDrafter"
    assert served(traffic, begin) == []


@pytest.mark.usefixtures("engine")
def test_connections_that_hear_nothing_any_more_are_left(namespace: str, traffic: Traffic):
    begin = datetime.now(UTC)
    with outages.deaf(address()):
        apply_server(server(namespace, "q70", "v4"))
        wait_for("the operator to hear of it", DEAF_SECONDS, lambda: heard(namespace))
        print(f"it was heard of after {(datetime.now(UTC) - begin).total_seconds():.2f} s")
        assert wait_current(namespace)["status"]["active"]["version"] == "v4"
    assert served(traffic, begin) == []


def test_nothing_was_deleted_or_started_again_and_no_user_noticed(
    namespace: str, traffic: Traffic, engine: str
):
    assert (uid(namespace), restarts(namespace)) == (engine, 0)
    operator = install.pod()
    assert [status["restartCount"] for status in operator["status"]["containerStatuses"]] == [0]
    born = datetime.fromisoformat(operator["metadata"]["creationTimestamp"])
    assert [write for write in install.writes(born) if write["verb"] == "delete"] == []
    assert traffic.stop()["failed"] == 0
