"""Quarantine: what was rejected is refused until the drafter, the target or the engine changes.

The records are the truth: a rejected record carries the digests and the engine build that it failed with.
"""

from __future__ import annotations

from collections.abc import Sequence

from specdec.api.conditions import Reason
from specdec.api.v1alpha1 import QuarantineEntry
from specdec.rollout.revisions import declared_layers, version
from specdec.rollout.world import RevisionRecord

PROMOTED = "Promoted"
REJECTED = "Rejected"
SUPERSEDED = "Superseded"

MOST_ENTRIES = 20

BY_PERSON = frozenset({Reason.ABORTED_BY_USER.value, Reason.UNDONE_BY_USER.value})
"""Reasons of a rejection that say nothing about the drafter's contents: it holds until a person says otherwise."""


def rejected(record: RevisionRecord | None) -> bool:
    """Whether a revision was rejected."""
    return record is not None and record.outcome == REJECTED


def quarantined(record: RevisionRecord) -> bool:
    """Whether a rejection concerns the drafter's contents, wherever they lie."""
    return rejected(record) and bool(record.digest) and record.reason not in BY_PERSON


def still_holds(record: RevisionRecord, target_digest: str, engine: str) -> bool:
    """Whether target and engine are those that a record was rejected with, as far as both are known."""
    same_target = not (target_digest and record.target_digest) or target_digest == record.target_digest
    return same_target and (not (engine and record.engine) or engine == record.engine)


def twin(
    records: Sequence[RevisionRecord], record: RevisionRecord, target_digest: str, engine: str
) -> RevisionRecord | None:
    """Find another revision in quarantine whose drafter has these very contents, on the same layers."""
    return next(
        (
            other
            for other in records
            if record.digest
            and other.name != record.name
            and quarantined(other)
            and other.digest == record.digest
            # Weights that failed on the wrong layers may be sound on those that a person names later.
            and declared_layers(other) == declared_layers(record)
            and still_holds(other, target_digest, engine)
        ),
        None,
    )


def entries(records: Sequence[RevisionRecord]) -> tuple[QuarantineEntry, ...]:
    """Show the newest rejections in the status."""
    held = sorted((record for record in records if quarantined(record)), key=lambda record: record.at)
    return tuple(
        QuarantineEntry(
            drafter_digest=record.digest,
            target_digest=record.target_digest,
            engine=record.engine,
            version=version(record),
            reason=record.reason,
            message=record.message,
            at=record.at,
        )
        for record in held[-MOST_ENTRIES:]
    )
