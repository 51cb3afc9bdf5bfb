"""Which command the agent takes: fences against an older operator and against a repeated message."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from specdec.engine.protocol import Answer, Confirm

if TYPE_CHECKING:
    from specdec.engine.agent.plan import Obeyed
    from specdec.engine.protocol import Envelope

TAKEN = Answer(accepted=True)


@dataclass
class Fence:
    """Remembers the commands taken at the highest assignment, by their bodies' hashes."""

    assignment: int = -1
    bodies: set[str] = field(default_factory=set)

    def repeated(self, envelope: Envelope, body_hash: str) -> bool:
        """Whether this very command was taken already; a Confirm may come as often as it likes."""
        return (
            envelope.assignment == self.assignment
            and body_hash in self.bodies
            and not isinstance(envelope.command, Confirm)
        )

    def remember(self, envelope: Envelope, body_hash: str) -> None:
        """Keep a taken command in mind as long as its assignment is the highest."""
        if envelope.assignment > self.assignment:
            self.assignment = envelope.assignment
            self.bodies.clear()
        self.bodies.add(body_hash)


def stale(envelope: Envelope, state: Obeyed) -> Answer | None:
    """Refuse what an operator sent that is no longer the leader, or that was overtaken."""
    if envelope.epoch < state.epoch:
        return refused(
            "StaleEpoch",
            f"the command has epoch {envelope.epoch}, epoch {state.epoch} was seen: another operator leads now",
        )
    if envelope.assignment < state.assignment:
        return refused(
            "StaleAssignment",
            f"the command has assignment {envelope.assignment}, {state.assignment} is obeyed: send a higher one",
        )
    return None


def refused(reason: str, message: str) -> Answer:
    """Answer no."""
    return Answer(accepted=False, reason=reason, message=message)
