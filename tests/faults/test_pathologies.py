"""Counters that are wrong in sixteen ways take no good drafter away and promote no bad one."""

from __future__ import annotations

import pytest
from tests.faults import pathologies


@pytest.mark.parametrize("name", pathologies.PATHOLOGIES, ids=lambda name: name.replace(" ", "-"))
def test_wrong_counters_cause_no_wrong_action(name: str):
    assert pathologies.trial(name) == []
