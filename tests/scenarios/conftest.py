"""The scenario fixture."""

from __future__ import annotations

import pytest
from tests.support.scenario import Scenario


@pytest.fixture
def scenario() -> Scenario:
    return Scenario()
