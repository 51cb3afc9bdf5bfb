"""A server at rest costs the API server nothing: counted in its audit log."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Any

import pytest
from tests.demo.traffic import start_client
from tests.support import install
from tests.support.kubectl import get, kubectl, wait_condition, wait_for
from tests.support.nodes import audit
from tests.support.servers import apply_server, server

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

OPERATOR = f"system:serviceaccount:{install.OPERATOR_NAMESPACE}:specdec-operator"
WATCHED_SECONDS = 60


@pytest.fixture(scope="module", autouse=True)
def serving(namespace: str) -> None:
    """One server that serves v1, promoted under a load that goes on."""
    apply_server(server(namespace, "good", "v1"))
    wait_condition("kimi", namespace, "Ready", "True", 300)
    start_client(namespace, "kimi")
    wait_for("v1 to be judged", 120, lambda: get("sds", "kimi", namespace)["status"].get("lastGood"))


def writes(since: datetime) -> list[dict[str, Any]]:
    """Collect the operator's writes since a moment, but for its Lease."""
    return [
        {key: entry["objectRef"].get(key) for key in ("resource", "subresource", "name")}
        | {"verb": entry["verb"]}
        for entry in audit()
        if entry["user"]["username"] == OPERATOR
        and datetime.fromisoformat(entry["requestReceivedTimestamp"]) > since
        and entry["objectRef"]["resource"] != "leases"
    ]


def rest() -> None:
    """Wait for a window without a write: the last requests' figures are written up to a minute later."""
    for _ in range(4):
        begin = datetime.now(UTC)
        time.sleep(WATCHED_SECONDS)
        if not writes(begin):
            return
    raise TimeoutError(
        f"the operator still writes after {4 * WATCHED_SECONDS} s without requests: {writes(begin)}"
    )


def lease_holder() -> str:
    """Return who leads."""
    return kubectl(
        "get", "lease", "-n", install.OPERATOR_NAMESPACE, "-o", "jsonpath={.items[0].spec.holderIdentity}"
    )


def test_the_audit_log_sees_the_operators_writes(namespace: str):
    assert any(entry["user"]["username"] == OPERATOR for entry in audit())


def test_a_steady_load_needs_hardly_any_status_write(namespace: str):
    begin = datetime.now(UTC)
    time.sleep(WATCHED_SECONDS)
    found = writes(begin)
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
    assert writes(begin) == []
