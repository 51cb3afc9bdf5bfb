"""A few random walks through valid specs; `python -m tests.faults` takes ten thousand steps."""

from __future__ import annotations

import random

import pytest
from tests.faults import transitions
from tests.faults.stories import spec


@pytest.mark.parametrize("seed", range(1, 7))
def test_after_each_change_of_the_spec_it_is_there_or_says_why_not(seed: int):
    assert transitions.walked(seed, 12) == []


def test_specs_are_drawn_from_every_field_that_the_crd_has_but_two():
    names = {".".join(path) for path in transitions.fields()}
    assert {"replicas", "mode", "drafting", "engine.tensorParallel", "rollout.paused"} <= names
    left_out = {
        ".".join(path) for path, _ in transitions._leaves(transitions.openapi()["properties"]["spec"])
    } - names
    assert left_out == {"acceptance.offFactor", "rollout.pinnedRevision"}


def test_what_is_drawn_is_what_the_api_server_takes():
    rng, now = random.Random(1), spec()
    for _ in range(200):
        now = transitions.changed(now, rng)
        assert transitions.valid(now)
