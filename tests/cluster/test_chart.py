"""The chart on the real cluster, in a namespace of its own: installed, upgraded, uninstalled."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.support import install
from tests.support.chart import CHART, EXAMPLE_VALUES, helm
from tests.support.kubectl import KUBECONFIG, KubectlError, delete_namespace, items, kubectl, wait_for
from tests.support.servers import apply_server, server

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]
NAMESPACE = "specdec-chart"
RELEASE = "own"
NAME = f"{RELEASE}-specdec-operator"
PREFIX = "localhost/specdec-engine-cpu"
"""Stricter than what the cluster's other installation allows, so that the refusals are this one's."""
SERVES = (
    f"--namespace={NAMESPACE}",
    f"--kubeconfig={KUBECONFIG}",
    f"--values={EXAMPLE_VALUES}",
    f"--set=namespaces={{{NAMESPACE}}},crds.enabled=false",
    f"--set=engine.imagePrefixes={{{PREFIX}}}",
)


@pytest.fixture(scope="module")
def release() -> Iterator[str]:
    """Install the chart beside whatever else runs, for one namespace without servers."""
    if not KUBECONFIG.exists():
        pytest.fail("there is no cluster: `make test-cluster` makes it")
    install.crds()
    _remove()
    install.namespace(NAMESPACE)
    helm("install", RELEASE, str(CHART), *SERVES)
    kubectl("rollout", "status", f"deployment/{NAME}", "-n", NAMESPACE, "--timeout=90s", seconds=100)
    yield RELEASE
    _remove()
    delete_namespace(NAMESPACE)


def _remove() -> None:
    helm("uninstall", RELEASE, f"--namespace={NAMESPACE}", f"--kubeconfig={KUBECONFIG}", "--ignore-not-found")


def logs() -> str:
    return kubectl("logs", "-n", NAMESPACE, f"deployment/{NAME}")


@pytest.mark.usefixtures("release")
def test_it_decides_in_its_namespace_with_the_rights_of_a_role():
    wait_for("the operator to hold its Lease", 60, lambda: "holds the lease" in logs())
    wait_for(
        "its signing key",
        30,
        lambda: [s for s in items("secrets", NAMESPACE) if s["metadata"]["name"] == "specdec-signing-key"],
    )
    assert "may not" not in logs()
    assert "forbidden" not in logs()


@pytest.mark.usefixtures("release")
@pytest.mark.parametrize(
    "image", ["localhost/other:1", "localhost/specdec-engine", f"{PREFIX}-evil:1", f"{PREFIX}/../x"]
)
def test_admission_refuses_an_image_outside_the_prefixes(image: str):
    def refusal() -> str:
        try:
            apply_server(with_image(image), "--dry-run=server")
        except KubectlError as error:
            return str(error)
        return ""

    # The API server takes a new policy up after a moment.
    sentence = str(wait_for("the policy to be in force", 30, refusal))
    assert f"engine.image is {image}, which begins with none of the prefixes" in sentence
    # What leaves its folder is refused by the cluster's other installation as well, and one of the two says so.
    assert sentence.rstrip().endswith(f"allows: {PREFIX}") or ".." in image


@pytest.mark.usefixtures("release")
@pytest.mark.parametrize("image", [f"{PREFIX}:dev", f"{PREFIX}@sha256:{'0' * 64}", None])
def test_admission_takes_an_image_of_the_prefixes(image: str | None):
    apply_server(with_image(image), "--dry-run=server")


def with_image(image: str | None) -> dict[str, Any]:
    return server(NAMESPACE, "good", "v1", engine={"image": image})


@pytest.mark.usefixtures("release")
def test_an_upgrade_to_two_pods_leaves_one_that_decides():
    helm("upgrade", RELEASE, str(CHART), *SERVES, "--set=replicas=2")
    kubectl("rollout", "status", f"deployment/{NAME}", "-n", NAMESPACE, "--timeout=90s", seconds=100)
    pods = items("pods", NAMESPACE, "app.kubernetes.io/name=specdec-operator")
    running = [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]
    assert len(running) == 2
    assert [budget["spec"]["maxUnavailable"] for budget in items("poddisruptionbudgets", NAMESPACE)] == [1]
    (lease,) = items("leases", NAMESPACE)
    names = {pod["metadata"]["name"] for pod in running}
    wait_for("one of them to hold the Lease", 60, lambda: holder() in names)
    assert lease["metadata"]["name"] == "specdec-operator"


def holder() -> str:
    (lease,) = items("leases", NAMESPACE)
    return str(lease["spec"]["holderIdentity"]).partition("_")[0]


@pytest.mark.usefixtures("release")
def test_uninstalling_leaves_the_crd_and_the_key():
    _remove()
    assert items("deployments", NAMESPACE) == []
    assert items("rolebindings", NAMESPACE) == []
    assert [item["metadata"]["name"] for item in items("secrets", NAMESPACE)] == ["specdec-signing-key"]
    assert kubectl("get", "crd", "specdecodeservers.specdec.dev")
    policies = kubectl("get", "validatingadmissionpolicies", "-o", "name")
    assert NAME not in policies
