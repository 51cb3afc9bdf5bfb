"""The chart over the release before, with an engine that serves: upgraded, uninstalled, and no user notices."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.cluster.tooling.places import PREVIOUS
from tests.demo.traffic import Traffic
from tests.support import install
from tests.support.chart import helm
from tests.support.kubectl import KUBECONFIG, condition, get, items, kubectl, wait_condition, wait_for
from tests.support.servers import apply_server, engine_pods, restarts, server, wait_current

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]
OLD_ENGINE = "localhost/specdec-engine-cpu:previous"
KEPT = ("active", "lastGood", "engine", "readyReplicas", "quarantine")


@pytest.fixture(scope="module")
def traffic(namespace: str) -> Iterator[Traffic]:
    """The release before, one server of it that serves its engine's image of then, and a client."""
    install.remove_operator()
    (chart,) = PREVIOUS.glob("*.tgz")
    try:
        run_helm(
            *install.command(str(chart)), "--set", f"image.tag=previous,engine.defaultImage={OLD_ENGINE}"
        )
        apply_server(server(namespace, "good", "v1"))
        wait_condition("kimi", namespace, "Ready", "True", 300)
        running = Traffic(namespace, "kimi")
        wait_for("v1 to be promoted", 120, lambda: status(namespace).get("lastGood"))
        yield running
    finally:
        install.operator()


def run_helm(*arguments: str) -> None:
    helm(*arguments, f"--kubeconfig={KUBECONFIG}")
    install.await_operator()


def status(namespace: str) -> dict[str, Any]:
    return dict(get("sds", "kimi", namespace).get("status", {}))


def uids(namespace: str) -> list[str]:
    return [pod["metadata"]["uid"] for pod in engine_pods(namespace)]


def fields_of_the_crd() -> set[str]:
    crd = get("crd", "specdecodeservers.specdec.dev", "default")
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return set(schema["properties"]["spec"]["properties"])


def served(traffic: Traffic, count: int = 5) -> None:
    """Wait for requests that began after now."""
    last = traffic.requests()[-1]["start"] if traffic.requests() else 0.0
    assert [r["error"] for r in traffic.wait_requests(count, last)] == [None] * count


def test_an_upgrade_leaves_engine_status_and_users_as_they_are(namespace: str, traffic: Traffic):
    before, pods = status(namespace), uids(namespace)
    assert "preflight" not in fields_of_the_crd()
    # As docs/how-to/install.md has it.
    where = (install.RELEASE, "charts/specdec-operator", "--namespace", install.OPERATOR_NAMESPACE)
    run_helm("upgrade", *where, "--reset-then-reuse-values", "--set", "image.tag=dev")
    assert "preflight" in fields_of_the_crd()
    apply_server(server(namespace, "good", "v1", rollout={"minSoakSeconds": 4}))
    after = wait_condition("kimi", namespace, "DrafterCurrent", "True", 60)["status"]
    assert after["observedGeneration"] > before["observedGeneration"]
    assert {key: after.get(key) for key in KEPT} == {key: before.get(key) for key in KEPT}
    served(traffic)
    assert uids(namespace) == pods
    assert restarts(namespace) == 0


def test_the_new_operator_rolls_out_on_the_old_engine(namespace: str, traffic: Traffic):
    pods = uids(namespace)
    apply_server(server(namespace, "q70", "v2"))
    thing = wait_current(namespace)
    assert thing["status"]["active"]["version"] == "v2"
    assert condition(thing, "Stalled")["status"] == "False"
    assert (uids(namespace), restarts(namespace)) == (pods, 0)


def test_uninstalled_it_leaves_the_crd_the_server_the_key_and_an_engine_that_serves(
    namespace: str, traffic: Traffic
):
    pods = uids(namespace)
    install.remove_operator()
    assert items("deployments", install.OPERATOR_NAMESPACE) == []
    assert kubectl("get", "crd", "specdecodeservers.specdec.dev")
    assert status(namespace)["active"]["version"] == "v2"
    names = {secret["metadata"]["name"] for secret in items("secrets", install.OPERATOR_NAMESPACE)}
    assert "specdec-signing-key" in names
    served(traffic)
    assert (uids(namespace), restarts(namespace)) == (pods, 0)


def test_no_request_failed_from_the_first_to_the_last(traffic: Traffic):
    end = traffic.stop()
    assert end["requests"] > 20
    assert end["failed"] == 0


def test_without_an_operator_a_server_is_deleted_and_nothing_hangs(namespace: str):
    assert get("sds", "kimi", namespace)["metadata"].get("finalizers") is None
    kubectl("delete", "sds", "kimi", "-n", namespace, "--timeout=30s")
    kubectl("wait", "--for=delete", "pod/kimi-0", "-n", namespace, "--timeout=90s", seconds=100)
