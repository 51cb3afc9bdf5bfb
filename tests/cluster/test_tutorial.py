"""docs/tutorial.md on the real cluster, command by command, as a reader types it."""

from __future__ import annotations

import pytest
from tests.demo import tutorial
from tests.demo.story import clean_up

pytestmark = [pytest.mark.cluster, pytest.mark.nightly, pytest.mark.timeout(tutorial.DEADLINE + 120)]


def test_every_command_of_the_tutorial_ends_as_the_page_tells():
    try:
        assert tutorial.wrong() == []
    finally:
        clean_up()
