"""Two operators, one of which stands still for a while; `python -m tests.faults` takes a thousand pauses."""

from __future__ import annotations

import pytest
from tests.faults import pauses, points
from tests.faults.stories import STORIES

TOLD = [story for story in STORIES if story.name in {"good rollout", "bad live candidate", "undo"}]


@pytest.mark.parametrize("story", TOLD, ids=lambda story: story.name.replace(" ", "-"))
def test_an_operator_that_stood_still_changes_nothing_once_another_has_taken_over(story: points.Story):
    of = points.reference(story)
    wrong = {seed: found for seed in range(4) if (found := pauses.trial(of, pauses.drawn(seed)))}
    assert wrong == {}
