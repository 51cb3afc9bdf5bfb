"""Events: sentences with numbers, each derived from what changed between the old status and the new one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain

from specdec.acceptance.verdict import Doubt
from specdec.api.base import Condition
from specdec.api.conditions import ConditionType, Reason, find
from specdec.api.v1alpha1 import SpecDecodeServerStatus
from specdec.engine.protocol import Agreement, Candidate, CandidateState
from specdec.rollout.outcomes import NOT_CONFIRMED
from specdec.rollout.passing import Pass
from specdec.rollout.quarantine import PROMOTED, REJECTED, SUPERSEDED, rejected
from specdec.rollout.revisions import version
from specdec.rollout.world import Event, RevisionRecord

NORMAL, WARNING = "Normal", "Warning"


def events(done: Pass, after: SpecDecodeServerStatus) -> tuple[Event, ...]:
    """Collect what is worth telling of this pass."""
    rules: tuple[Callable[[Pass, SpecDecodeServerStatus], Iterator[Event]], ...] = (
        request_answered,
        preflight_ended,
        candidate_serving,
        promoted,
        left,
        refused,
        refused_again,
        superseded,
        traffic_contradicted,
        would_have,
        drafting_switched,
        drafting_paid,
        answers_differ,
        stalled,
        ready,
    )
    return tuple(chain.from_iterable(rule(done, after) for rule in rules))


def request_answered(done: Pass, after: SpecDecodeServerStatus) -> Iterator[Event]:
    """A person's request was acted upon."""
    if done.answer and after.last_handled_request != done.before.last_handled_request:
        yield Event(NORMAL, Reason.REQUEST_HANDLED, done.answer)


def preflight_ended(done: Pass, after: SpecDecodeServerStatus) -> Iterator[Event]:
    """The spec's drafter was judged by its headers, or judged anew."""
    desired = done.scene.desired
    before = done.scene.world.told_of.get(desired.name)
    if not desired.preflight or (before is not None and before.preflight == desired.preflight):
        return
    now = find(after.conditions, ConditionType.PREFLIGHT_PASSED)
    if now is not None and after.preflight is not None:
        message = f"preflight of {version(desired)}: {now.message}"
        yield Event(NORMAL if now.status == "True" else WARNING, now.reason, message)


def candidate_serving(done: Pass, after: SpecDecodeServerStatus) -> Iterator[Event]:
    """A candidate passed its probe."""
    if after.candidate and after.rollout == "Judging" and done.before.rollout != "Judging":
        reports = _reports(done, after.candidate.revision)
        took = max((report.swap_seconds for report in reports), default="")
        behind = f" in {_spell(took)}" if took else ""
        name = after.candidate.version
        yield Event(
            NORMAL,
            Reason.CANDIDATE_SERVING,
            f"{name} was swapped in{behind}, passed its probe and is being judged",
        )


def promoted(done: Pass, _after: SpecDecodeServerStatus) -> Iterator[Event]:
    """A revision was promoted."""
    for record in _became(done, PROMOTED):
        yield Event(
            NORMAL,
            Reason.PROMOTED,
            f"{version(record)} is promoted: {record.message or record.reason or 'it serves'}",
        )


def left(done: Pass, after: SpecDecodeServerStatus) -> Iterator[Event]:
    """A candidate left again."""
    before = done.before.candidate
    if before is None or (after.candidate and after.candidate.revision == before.revision):
        return
    record = done.scene.record(before.revision)
    report = next(iter(_reports(done, before.revision)), None)
    if record is None or report is None or record.outcome in {PROMOTED, SUPERSEDED}:
        return
    back = after.active.version if after.active else "no drafter"
    took = f" in {_spell(report.back_seconds)}" if report.back_seconds else ""
    if rejected(record) and report.state is CandidateState.SWAPPED_BACK:
        message = f"{record.message}; rolled back {version(record)} -> {back}{took}"
        yield Event(WARNING, Reason.ROLLED_BACK, message)
    elif report.reason == NOT_CONFIRMED:
        message = f"{version(record)} was taken back{took}: the operator did not confirm it in time; it is tried again"
        yield Event(WARNING, Reason.NOT_CONFIRMED, message)


def refused(done: Pass, after: SpecDecodeServerStatus) -> Iterator[Event]:
    """A drafter was rejected that was no candidate, or never served as one."""
    for record in _became(done, REJECTED):
        if record.reason == Reason.UNDONE_BY_USER:
            continue  # the answer to the request says it
        served = any(report.swapped_at for report in _reports(done, record.name))
        told_when_it_left = done.before.candidate and done.before.candidate.revision == record.name
        if not served:
            message = f"{version(record)} is refused: {record.message}; {_back(after)}"
            yield Event(WARNING, Reason.REFUSED, message)
        elif not told_when_it_left:
            message = f"{version(record)} is rejected: {record.message}; {_back(after)}"
            yield Event(WARNING, Reason.ROLLED_BACK, message)


def answers_differ(done: Pass, after: SpecDecodeServerStatus) -> Iterator[Event]:
    """A warm-up found that drafting changes what the target says."""
    now, old = after.warmup, done.before.warmup
    if now and now.answers == Agreement.DIFFERENT and not (old and old.answers == now.answers):
        yield Event(WARNING, Reason.ANSWERS_DIFFER, now.message)


def refused_again(done: Pass, after: SpecDecodeServerStatus) -> Iterator[Event]:
    """A drafter that was rejected before was asked for again."""
    now, old = _both(done, after, ConditionType.DRAFTER_CURRENT)
    desired = done.scene.desired
    if now is None or now.reason != Reason.DRAFTER_QUARANTINED or desired.reason == Reason.QUARANTINED:
        return
    if old is None or old.reason != now.reason:
        message = f"{version(desired)} is refused from quarantine: {desired.message} (rejected {desired.at}); {_back(after)}"
        yield Event(WARNING, Reason.REFUSED, message)


def superseded(done: Pass, _after: SpecDecodeServerStatus) -> Iterator[Event]:
    """The spec moved on before a revision was judged."""
    for record in _became(done, SUPERSEDED):
        desired = version(done.scene.desired) or "a server without a drafter"
        yield Event(NORMAL, Reason.SUPERSEDED, f"{version(record)} is superseded by {desired}")


def would_have(done: Pass, after: SpecDecodeServerStatus) -> Iterator[Event]:
    """In Observe mode: what would have been done."""
    if done.scene.enforcing:
        return
    healthy, old = _both(done, after, ConditionType.ACCEPTANCE_HEALTHY)
    if healthy and healthy.status == "False" and (old is None or old.status != "False"):
        name = after.active.version if after.active else "the drafter"
        yield Event(WARNING, Reason.WOULD_HAVE, f"would have taken {name} back: {healthy.message}")
    now, then = _both(done, after, ConditionType.DRAFTER_CURRENT)
    if now and now.reason == Reason.OBSERVING and (then is None or then.message != now.message):
        yield Event(NORMAL, Reason.WOULD_HAVE, f"would have rolled out {version(done.scene.desired)}")


def traffic_contradicted(done: Pass, after: SpecDecodeServerStatus) -> Iterator[Event]:
    """Live traffic looks bad and is the reason itself: the drafter is kept."""
    now, old = _both(done, after, ConditionType.ACCEPTANCE_HEALTHY)
    odd = {Doubt.PROBE_CONTRADICTS, Doubt.STICKY_ROUTING}
    if now and now.reason in odd and (old is None or old.reason != now.reason):
        yield Event(WARNING, now.reason, now.message)


def drafting_switched(done: Pass, after: SpecDecodeServerStatus) -> Iterator[Event]:
    """Drafting went off or on again."""
    if bool(after.drafting_off_since) == bool(done.before.drafting_off_since):
        return
    if after.drafting_off_since:
        why = (
            "the spec says so"
            if not done.scene.drafting_wanted
            else "there is no drafter that is known to be good"
        )
        yield Event(WARNING, Reason.DRAFTING_OFF, f"drafting is off: {why}")
    else:
        yield Event(NORMAL, Reason.SERVING, "engines draft again")


def drafting_paid(done: Pass, after: SpecDecodeServerStatus) -> Iterator[Event]:
    """Drafting was found to pay or not to pay under the live load."""
    if bool(after.slower_since) == bool(done.before.slower_since):
        return
    verdict = done.scene.verdict(done.aim.record.name) if done.aim.record else None
    if after.slower_since and verdict is not None:
        yield Event(WARNING, Reason.DRAFTING_OFF, f"drafting is off: {verdict.message}")
    elif done.before.slower_since:
        yield Event(NORMAL, Reason.SERVING, "engines draft again")


def stalled(done: Pass, after: SpecDecodeServerStatus) -> Iterator[Event]:
    """Something only a person can mend came up."""
    now, old = _both(done, after, ConditionType.STALLED)
    told_already = {Reason.DRAFTER_REJECTED, Reason.DRAFTER_QUARANTINED}
    if now is None or now.status != "True" or now.reason in told_already:
        return
    if old is None or old.status != "True" or old.reason != now.reason:
        yield Event(WARNING, now.reason, now.message)


def ready(done: Pass, after: SpecDecodeServerStatus) -> Iterator[Event]:
    """Users are served, for the first time or again."""
    now, old = _both(done, after, ConditionType.READY)
    if now and now.status == "True" and (old is None or old.status != "True"):
        yield Event(NORMAL, now.reason, now.message)


def _became(done: Pass, outcome: str) -> list[RevisionRecord]:
    """Find the records whose outcome this is and was not told yet."""
    return [record for record in done.untold if record.outcome == outcome]


def _reports(done: Pass, revision: str) -> list[Candidate]:
    return [
        status.candidate
        for _, status in done.scene.engines
        if status.candidate and status.candidate.revision == revision
    ]


def _both(
    done: Pass, after: SpecDecodeServerStatus, type_: ConditionType
) -> tuple[Condition | None, Condition | None]:
    """One condition as this pass leaves it and as it stood before."""
    return find(after.conditions, type_), find(done.before.conditions, type_)


def _back(after: SpecDecodeServerStatus) -> str:
    return (
        f"{after.active.version} serves on" if after.active and after.active.version else "no drafter serves"
    )


def _spell(seconds: str) -> str:
    """Spell a duration so that a short one does not read as nothing."""
    value = float(seconds)
    return f"{value:.1f} s" if value >= 1 else f"{value * 1000:.0f} ms"
