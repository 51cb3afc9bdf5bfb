"""One-shot verbs of a person: the annotation `specdec.dev/request: VERB@REVISION@NONCE`.

Acted upon once: `status.lastHandledRequest` then carries the same text, and `status.lastAnswer` the answer.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace

from specdec.api.conditions import Reason
from specdec.rollout.clock import exact
from specdec.rollout.quarantine import PROMOTED, REJECTED, rejected
from specdec.rollout.revisions import version
from specdec.rollout.world import RevisionRecord, World

Records = tuple[RevisionRecord, ...]
Answered = tuple[Records, str]
"""The records as the request leaves them, and the answer in a sentence."""
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


@dataclass(frozen=True)
class Matter:
    """A request with all that its answer depends on."""

    request: Request
    record: RevisionRecord
    """The revision that it names."""
    records: Records
    world: World
    desired: str
    """The revision that the spec asks for."""
    now: float

    def became(self, *changed: RevisionRecord) -> Records:
        """Put changed records in the place of the old ones."""
        by_name = {record.name: record for record in changed}
        return tuple(by_name.get(record.name, record) for record in self.records)

    def refused(self, why: str) -> Answered:
        """Change nothing and say why."""
        return self.records, refusal(self.request.verb, why)


def refusal(verb: str, why: str) -> str:
    """Word an answer that changed nothing."""
    return f"{verb} refused: {why}"


def pending(world: World) -> Request | None:
    """Read the annotation, unless it was acted upon."""
    text = world.request
    kept = mark(text)
    if not text or kept == world.server.status.last_handled_request:
        return None
    verb, _, rest = kept.partition("@")
    return Request(verb, rest.partition("@")[0])


def handled(records: Records, request: Request | None, world: World, desired: str, now: float) -> Answered:
    """Act upon a request; returns the records and the answer in a sentence ("" without a request)."""
    if request is None:
        return records, ""
    act = VERBS.get(request.verb)
    if act is None:
        return records, refusal(request.verb, f"the verbs are {', '.join(VERBS)}")
    record = next((record for record in records if record.name == request.revision), None)
    if record is None:
        return records, refusal(request.verb, f"there is no revision {request.revision}")
    return act(Matter(request, record, records, world, desired, now))


def retry(matter: Matter) -> Answered:
    """Give a revision another trial, whatever became of it."""
    record, at = matter.record, exact(matter.now)
    done = replace(record, outcome="", reason="", message="", digest="", preflight="", at=at)
    return matter.became(done), f"retry: {record.name} gets another trial"


def promote(matter: Matter) -> Answered:
    """End a trial in favour of the candidate."""
    record, at = matter.record, exact(matter.now)
    if not _serves(matter.world, record.name):
        return matter.refused(f"{record.name} does not serve, so it was not promoted")
    done = replace(record, outcome=PROMOTED, reason=Reason.PROMOTED_BY_USER, message="", at=at)
    return matter.became(done), f"promote: {record.name} is promoted"


def abort(matter: Matter) -> Answered:
    """End a trial against the candidate."""
    record = matter.record
    if matter.world.launch_plan is not None and matter.world.launch_plan.revision == record.name:
        return matter.refused(f"{record.name} is active; undo returns to an earlier revision")
    done = _left(matter, record, Reason.ABORTED_BY_USER, "a person aborted the rollout")
    return matter.became(done), f"abort: {record.name} is taken back"


def undo(matter: Matter) -> Answered:
    """Return to an earlier revision; the spec's own is refused until a person says retry, or the spec changes."""
    record, at = matter.record, exact(matter.now)
    pinned = matter.world.server.spec.rollout.pinned_revision
    if pinned:
        return matter.refused(f"rollout.pinnedRevision holds {pinned}; unpin first")
    if record.name == matter.desired:
        return matter.refused(f"{record.name} is what the spec asks for; retry gives it another trial")
    if rejected(record):
        return matter.refused(f"{record.name} was rejected ({record.reason}); pin serves it all the same")
    wished = next(item for item in matter.records if item.name == matter.desired)
    back = replace(record, outcome=PROMOTED, reason=Reason.PROMOTED_BY_USER, message="", at=at)
    why = f"a person returned to {version(record) or record.name}"
    left = wished if rejected(wished) else _left(matter, wished, Reason.UNDONE_BY_USER, why)
    return matter.became(back, left), f"undo: {record.name} serves again in place of {wished.name}"


VERBS: dict[str, Callable[[Matter], Answered]] = {
    "retry": retry,
    "promote": promote,
    "abort": abort,
    "undo": undo,
}


def _left(matter: Matter, record: RevisionRecord, reason: Reason, message: str) -> RevisionRecord:
    return replace(record, outcome=REJECTED, reason=reason, message=message, at=exact(matter.now))


def _serves(world: World, revision: str) -> bool:
    return any(pod.status is not None and pod.status.revision == revision for pod in world.pods)
