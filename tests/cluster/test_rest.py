"""A server at rest costs the API server nothing: counted in its audit log."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

import pytest
from tests.demo.traffic import start_client
from tests.support import install
from tests.support.kubectl import get, kubectl, wait_condition, wait_for
from tests.support.servers import apply_server, server

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

WATCHED_SECONDS = 60


@pytest.fixture(scope="module", autouse=True)
def serving(namespace: str) -> None:
    """One server that serves v1, promoted under a load that goes on."""
    apply_server(server(namespace, "good", "v1"))
    wait_condition("kimi", namespace, "Ready", "True", 300)
    start_client(namespace, "kimi")
    wait_for("v1 to be judged", 120, lambda: get("sds", "kimi", namespace)["status"].get("lastGood"))


def rest() -> None:
    """Wait for a while without a write: the last requests' figures are written up to a minute later."""
    begin = datetime.now(UTC)

    def silent() -> timedelta:
        last = max((write["at"] for write in install.writes(begin)), default=begin)
        return datetime.now(UTC) - last

    what = f"{WATCHED_SECONDS} s without a write, and without requests"
    wait_for(what, 4 * WATCHED_SECONDS, lambda: silent() > timedelta(seconds=WATCHED_SECONDS))


def lease_holder() -> str:
    """Return who leads."""
    return kubectl(
        "get", "lease", "-n", install.OPERATOR_NAMESPACE, "-o", "jsonpath={.items[0].spec.holderIdentity}"
    )


def test_the_audit_log_sees_the_operators_writes(namespace: str):
    assert install.writes(datetime.fromtimestamp(0, UTC))


def test_a_steady_load_needs_hardly_any_status_write(namespace: str):
    begin = datetime.now(UTC)
    time.sleep(WATCHED_SECONDS)
    found = install.writes(begin)
    assert {(w["resource"], w["subresource"]) for w in found} <= {
        ("specdecodeservers", "status"),
        ("events", None),
    }
    assert len(found) <= 2


def test_an_operator_that_restarts_with_nothing_to_do_writes_nothing_but_its_lease(namespace: str):
    kubectl("delete", "pod", "client", "-n", namespace, "--grace-period=5", seconds=60)
    rest()
    before = lease_holder()
    kubectl("rollout", "restart", "deployment/specdec-operator", "-n", install.OPERATOR_NAMESPACE)
    wait_for("another operator to lead", 90, lambda: lease_holder() not in {"", before})
    begin = datetime.now(UTC)
    time.sleep(WATCHED_SECONDS)
    assert install.writes(begin) == []
