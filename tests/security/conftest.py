"""The CRD on the real cluster, for the tests that ask the real API server."""

from __future__ import annotations

import pytest
from tests.support import install
from tests.support.kubectl import KUBECONFIG


@pytest.fixture(scope="session")
def crd() -> None:
    """Apply the CRD."""
    if not KUBECONFIG.exists():
        pytest.fail("there is no cluster: `make test-cluster` makes it")
    install.crds()
