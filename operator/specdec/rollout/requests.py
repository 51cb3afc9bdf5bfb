"""One-shot verbs of a person: the annotation `specdec.dev/request: VERB@REVISION@NONCE`.

Acted upon once: `status.lastHandledRequest` then carries the same text.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace

from specdec.api.conditions import Reason
from specdec.rollout.clock import exact
from specdec.rollout.quarantine import PROMOTED, REJECTED
from specdec.rollout.world import RevisionRecord, World

LONGEST = 253
"""A request that is longer is none: revision names have up to 63 characters, a nonce needs few."""


def mark(text: str) -> str:
    """What the status keeps of a request that was acted upon: the text, or its hash where a status can't hold it."""
    if len(text) <= LONGEST and text.isascii() and text.isprintable():
        return text
    return f"sha256:{hashlib.sha256(text.encode(errors='replace')).hexdigest()}"


@dataclass(frozen=True)
class Request:
    """What a person asks for."""

    verb: str
    revision: str


def pending(world: World) -> Request | None:
    """Read the annotation, unless it was acted upon."""
    text = world.request
    kept = mark(text)
    if not text or kept == world.server.status.last_handled_request:
        return None
    verb, _, rest = kept.partition("@")
    return Request(verb, rest.partition("@")[0])


def handled(
    records: tuple[RevisionRecord, ...], request: Request | None, world: World, now: float
) -> tuple[tuple[RevisionRecord, ...], str]:
    """Act upon a request; returns the records and the answer in a sentence ("" without a request)."""
    if request is None:
        return records, ""
    record = next((record for record in records if record.name == request.revision), None)
    if record is None:
        return records, f"{request.verb}: there is no revision {request.revision}"
    at = exact(now)
    match request.verb:
        case "retry":
            done = replace(record, outcome="", reason="", message="", digest="", at=at)
            answer = f"retry: {record.name} gets another trial"
        case "promote":
            if not _serves(world, record.name):
                return records, f"promote: {record.name} does not serve, so it was not promoted"
            done = replace(record, outcome=PROMOTED, reason=Reason.PROMOTED_BY_USER, message="", at=at)
            answer = f"promote: {record.name} is promoted"
        case "abort":
            if world.launch_plan is not None and world.launch_plan.revision == record.name:
                return records, f"abort: {record.name} is active; set rollout.pinnedRevision to leave it"
            message = "a person aborted the rollout"
            done = replace(record, outcome=REJECTED, reason=Reason.ABORTED_BY_USER, message=message, at=at)
            answer = f"abort: {record.name} is taken back"
        case _:
            return records, f"{request.verb} is not known: use retry, promote or abort"
    return tuple(done if item.name == record.name else item for item in records), answer


def _serves(world: World, revision: str) -> bool:
    return any(pod.status is not None and pod.status.revision == revision for pod in world.pods)
