"""What the tests on the real cluster share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.support import install
from tests.support.kubectl import KUBECONFIG, delete_namespace, kubectl
from tests.support.servers import claim


@pytest.fixture(scope="session", autouse=True)
def operator() -> None:
    """Install models, CRDs and the operator once."""
    if not KUBECONFIG.exists():
        pytest.fail("there is no cluster: `make test-cluster` makes it")
    install.models()
    install.operator()


@pytest.fixture(scope="module")
def namespace(request: pytest.FixtureRequest) -> Iterator[str]:
    """Make a fresh namespace with the models' claim for one module of tests."""
    name = "specdec-" + request.module.__name__.rsplit("test_", 1)[-1].replace("_", "-")
    install.namespace(name)
    claim(name)
    yield name
    delete_namespace(name)
    kubectl("delete", "pv", f"{name}-models", "--ignore-not-found")
