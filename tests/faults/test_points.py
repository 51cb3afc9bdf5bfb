"""A seeded sample of the fault points; `python -m tests.faults` takes them all."""

from __future__ import annotations

import random

import pytest
from tests.faults import points
from tests.faults.network import Channel, Fault, Place
from tests.faults.stories import STORIES, Story

SAMPLE = 14
"""Points of each story, drawn anew with every seed."""
SEED = 7


def story(name: str) -> Story:
    return next(story for story in STORIES if story.name == name)


@pytest.mark.parametrize("told", STORIES, ids=lambda story: story.name.replace(" ", "-"))
def test_a_story_ends_as_it_should_whatever_fault_it_meets(told: Story):
    of = points.reference(told)
    drawn = random.Random(SEED).sample(points.places(of), SAMPLE)
    wrong = {place: found.wrong for place in drawn if (found := points.outcome(of, place)).wrong}
    assert wrong == {}


def test_every_kind_of_fault_is_met_somewhere_in_a_rollout():
    of = points.reference(story("good rollout"))
    everywhere = points.places(of)
    assert {place.channel for place in everywhere} == set(Channel)
    random.Random(SEED).shuffle(everywhere)
    of_each = {place.fault: place for place in everywhere}
    assert set(of_each) == set(Fault)
    wrong = {place: found.wrong for place in of_each.values() if (found := points.outcome(of, place)).wrong}
    assert wrong == {}


def test_a_fault_that_is_not_met_shows_nothing():
    of = points.reference(story("refused at first"))
    after_all = Place(Channel.WRITE, of.places[Channel.WRITE], Fault.LOST)
    assert points.outcome(of, after_all).wrong == ["the fault was not met"]


def test_a_request_is_answered_only_once_its_record_is_written():
    of = points.reference(story("undo"))
    first, *_ = points.writes(of, "patch controllerrevisions")
    assert points.outcome(of, Place(Channel.WRITE, first, Fault.THROTTLED)).wrong == []


def test_a_first_drafter_that_is_refused_is_named_though_its_pod_was_born_in_the_second_of_its_plan():
    of = points.reference(story("refused at first"))
    assert ["Stalled", "True", "DrafterRejected"] in of.end["status"]["conditions"]


def test_what_follows_from_a_rejection_waits_for_its_record():
    of = points.reference(story("refused at first"))
    *_, last = points.writes(of, "patch controllerrevisions")
    assert points.outcome(of, Place(Channel.WRITE, last, Fault.THROTTLED)).wrong == []


def test_a_record_that_arrives_late_changes_no_end():
    of = points.reference(story("refused at first"))
    first, *_ = points.writes(of, "create controllerrevisions")
    assert points.outcome(of, Place(Channel.WRITE, first, Fault.HUNG)).wrong == []


def test_a_lease_that_is_no_json_changes_no_end():
    of = points.reference(story("refused at first"))
    assert points.outcome(of, Place(Channel.LEASE, 5, Fault.GARBLED)).wrong == []
