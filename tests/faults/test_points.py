"""A seeded sample of the fault points; `python -m tests.faults` takes them all."""

from __future__ import annotations

import random

import pytest
from tests.faults import points
from tests.faults.network import FAULTS, Channel, Fault, Place
from tests.faults.stories import STORIES, Story

SAMPLE = 14
"""Points of each story, drawn anew with every seed."""
SEED = 7


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.name.replace(" ", "-"))
def test_a_story_ends_as_it_should_whatever_fault_it_meets(story: Story):
    of = points.reference(story)
    drawn = random.Random(SEED).sample(points.places(of), SAMPLE)
    wrong = {place: found.wrong for place in drawn if (found := points.outcome(of, place)).wrong}
    assert wrong == {}


def test_every_kind_of_fault_is_met():
    of = points.reference(STORIES[0])
    met = {fault for faults in FAULTS.values() for fault in faults}
    assert met == set(Fault)
    assert {place.channel for place in points.places(of)} == set(Channel) - {Channel.COMMAND}
    assert points.outcome(of, Place(Channel.WRITE, 0, Fault.CRASH_AFTER)).met


def test_a_request_is_answered_only_once_its_record_is_written():
    undo = next(story for story in STORIES if story.name == "undo")
    of = points.reference(undo)
    assert points.outcome(of, Place(Channel.WRITE, 0, Fault.THROTTLED)).wrong == []


def test_a_first_drafter_that_is_refused_is_named_though_its_pod_was_born_in_the_second_of_its_plan():
    of = points.reference(next(story for story in STORIES if story.name == "refused at first"))
    assert ["Stalled", "True", "DrafterRejected"] in of.end["status"]["conditions"]


def test_what_follows_from_a_rejection_waits_for_its_record():
    of = points.reference(next(story for story in STORIES if story.name == "refused at first"))
    (last,) = [
        number
        for (channel, number), label in of.labels.items()
        if channel is Channel.WRITE and label.startswith("patch controllerrevisions")
    ][-1:]
    assert points.outcome(of, Place(Channel.WRITE, last, Fault.THROTTLED)).wrong == []


@pytest.mark.parametrize(
    "place",
    [Place(Channel.WRITE, 0, Fault.HUNG), Place(Channel.LEASE, 5, Fault.GARBLED)],
    ids=lambda place: place.channel.value,
)
def test_a_record_that_arrives_late_and_a_lease_that_is_no_json_change_no_end(place: Place):
    of = points.reference(next(story for story in STORIES if story.name == "refused at first"))
    assert points.outcome(of, place).wrong == []
