"""A few random walks through valid specs; `python -m tests.faults` takes ten thousand steps."""

from __future__ import annotations

import random

import pytest
from tests.faults import transitions
from tests.faults.essence import Essence
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


def state(
    preflight: str = "True", pods: int = 1, active: str = "a", **conditions: tuple[str, str]
) -> Essence:
    said = {
        "PreflightPassed": (preflight, "PreflightPassed"),
        "DrafterCurrent": ("True", "Active"),
        **conditions,
    }
    status = {
        "conditions": [[kind, *words] for kind, words in said.items()],
        "observed": 0, "active": active, "phase": "Serving", "readyReplicas": 1,
    }  # fmt: skip
    return {"status": status, **{f"pod kimi-{number}": ["hash", "Serving"] for number in range(pods)}}


@pytest.mark.parametrize(
    ("found", "before", "said"),
    [
        (state(pods=2), 2, ""),
        (state(pods=1), 2, "['Serving'] where 2 should serve"),
        (state(pods=1, Stalled=("True", "DrafterRejected")), 2, "['Serving'] where 2 should serve"),
        (state(pods=2, Stalled=("True", "DrafterRejected")), 2, ""),
        (state(pods=1, Stalled=("True", "ClaimNotFound")), 1, ""),
        (state(pods=0, Stalled=("True", "ClaimNotFound")), 1, "[] where 1 should serve"),
        (state(pods=3, Stalled=("True", "ClaimNotFound")), 3, ""),
        (state(pods=0, active="", Stalled=("True", "DrafterNotFound")), 0, ""),
        (state(pods=2, Stalled=("True", "DrafterNotFound")), 0, ""),
        (state(pods=0, Stalled=("True", "DrafterNotFound")), 1, "[] where 2 should serve"),
        (state(pods=2, Stalled=("True", "ProgressDeadlineExceeded")), 2, transitions.ENDLESS),
        (state(pods=1, Reconciling=("True", "EnginesStarting")), 2, transitions.UNDER_WAY),
        (state(pods=2, DrafterCurrent=("False", "Active")), 2, "the drafter is not the wished one, and no reason is given"),
    ],
)  # fmt: skip
def test_engines_that_are_missing_are_explained_by_nothing_but_what_keeps_them_from_starting(
    found: Essence, before: int, said: str
):
    assert transitions.unexplained({"replicas": 2}, found, before) == said


@pytest.mark.parametrize(
    ("before", "after", "same"),
    [("True", "True", True), ("Unknown", "True", True), ("True", "Unknown", True), ("True", "False", False)],
)
def test_back_on_a_spec_only_a_preflight_may_say_more_or_less_but_nothing_else(
    before: str, after: str, same: bool
):
    assert (transitions.changed_by_the_way(state(before), state(after)) == []) is same
