from __future__ import annotations

import pytest
from tests.unit.test_agent_plan import A, state

from specdec.engine.agent.commands import Fence, stale
from specdec.engine.protocol import Command, Confirm, Drafting, Envelope, SetDrafting


def envelope(assignment: int = 5, epoch: int = 4, command: Command | None = None) -> Envelope:
    return Envelope(assignment=assignment, epoch=epoch, command=command or SetDrafting(drafting=Drafting.OFF))


@pytest.mark.parametrize(
    ("assignment", "epoch", "reason"),
    [(5, 4, None), (6, 5, None), (4, 4, "StaleAssignment"), (5, 3, "StaleEpoch"), (9, 3, "StaleEpoch")],
)
def test_older_operators_and_overtaken_commands_are_refused(assignment, epoch, reason):
    answer = stale(envelope(assignment, epoch), state(5, A, epoch=4))
    assert (answer.reason if answer else None) == reason


def test_a_repeated_command_is_known_until_a_higher_assignment_comes():
    fence = Fence()
    fence.remember(envelope(5), "hash")
    assert fence.repeated(envelope(5), "hash")
    assert not fence.repeated(envelope(5), "other")
    fence.remember(envelope(6), "next")
    assert not fence.repeated(envelope(5), "hash")


def test_a_confirm_may_come_again_and_again():
    fence = Fence()
    confirm = envelope(5, command=Confirm(revision="b", within_seconds=9))
    fence.remember(confirm, "hash")
    assert not fence.repeated(confirm, "hash")
