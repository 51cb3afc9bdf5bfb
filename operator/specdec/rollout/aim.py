"""What should serve now: the spec's revision, or what a rollback returns to."""

from __future__ import annotations

from dataclasses import dataclass

from specdec.rollout.quarantine import PROMOTED, rejected
from specdec.rollout.scene import Scene
from specdec.rollout.world import RevisionRecord


@dataclass(frozen=True)
class Aim:
    """The revision to get to; without one there is no good drafter and drafting goes off."""

    record: RevisionRecord | None
    pinned: bool = False


def choose(scene: Scene) -> Aim:
    """Choose in order: a person's pin, the spec, what was promoted last."""
    pinned = scene.record(scene.rollout.pinned_revision or "")
    if pinned is not None:
        return Aim(pinned, pinned=True)
    if not rejected(scene.desired):
        return Aim(scene.desired)
    return Aim(fallback(scene))


def fallback(scene: Scene) -> RevisionRecord | None:
    """Return to the last promoted revision; before any was promoted, to what the engines started with."""
    good = last_good(scene.records)
    if good is not None:
        return good
    promoted = scene.promoted
    return promoted if promoted is not None and not rejected(promoted) else None


def last_good(records: tuple[RevisionRecord, ...]) -> RevisionRecord | None:
    """Find the revision that was promoted last and not rejected since, however many came in between."""
    promoted = [record for record in records if record.outcome == PROMOTED]
    return max(promoted, key=lambda record: (record.at, record.number), default=None)
