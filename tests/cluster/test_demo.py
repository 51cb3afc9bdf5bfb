"""The demo's story on the real cluster with the real engine: every promise is one test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.demo.figures import Result
from tests.demo.story import Story, clean_up

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def told() -> Iterator[Result]:
    """Tell the story once."""
    try:
        result, _requests = Story().run()
        yield result
    finally:
        clean_up()


def test_every_promise_of_the_demo_is_kept(told: Result):
    assert [f"{p.text}: {p.found}" for p in told.promises if not p.kept] == []


def test_a_refused_drafter_never_took_a_request(told: Result):
    refused = [c for c in told.chapters if c.version in {"v3", "v3 off", "v4 again"}]
    assert [(c.version, c.touched, c.swapped) for c in refused] == [
        ("v3", 0, None),
        ("v3 off", 0, None),
        ("v4 again", 0, None),
    ]


def test_users_got_more_with_the_good_drafter_than_with_the_middling_one(told: Result):
    good, middling = told.chapters[0].after, told.chapters[1].after
    assert good
    assert middling
    assert good.accept_length > middling.accept_length > 2.2
