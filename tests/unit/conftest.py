"""Fixtures of the tests that start agents with a stand-in for SGLang."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.leash import leash
from tests.support.standinpod import stand_in_models


@pytest.fixture(scope="session")
def shared_models(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The stand-in's models, made once for all pods; what these start is not left behind, not even when the tests are killed."""
    folder = tmp_path_factory.mktemp("models")  # outside the leash's folder, as all of pytest's own
    with leash():
        yield stand_in_models(folder)
