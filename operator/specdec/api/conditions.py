"""Condition types and every reason, each with the sentence that says what it means.

Conditions are the truth and `phase` is derived from them. `Reconciling` and `Stalled` are abnormal-true, as
kstatus wants them, and stand as False when all is well.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from specdec.api.base import Condition


class ConditionType(StrEnum):
    """Conditions of a SpecDecodeServer."""

    READY = "Ready"
    """All wanted engines serve, or of several all but one."""
    DRAFTER_CURRENT = "DrafterCurrent"
    """The drafter that serves is the one of the spec; what CI waits on."""
    RECONCILING = "Reconciling"
    """The operator is on its way to what the spec says."""
    STALLED = "Stalled"
    """The operator can't get to what the spec says without a person."""
    ACCEPTANCE_HEALTHY = "AcceptanceHealthy"
    """Live traffic accepts enough of the drafter's tokens."""
    PREFLIGHT_PASSED = "PreflightPassed"
    """Config and headers of the spec's drafter show no fault; the reason of False is the first blocking finding's code."""


class Reason(StrEnum):
    """Reasons of conditions and events; once published they stay."""

    SERVING = "Serving"
    """The wanted engines serve; of several, one may be missing."""
    SERVING_WITHOUT_DRAFTING = "ServingWithoutDrafting"
    """The same, and drafting is off on one of them at least, or there is no drafter."""
    SCALED_TO_ZERO = "ScaledToZero"
    """No engines are wanted."""
    ENGINES_STARTING = "EnginesStarting"
    """Engines are on their way to serving; the message says how far they are."""

    ACTIVE = "Active"
    """The spec's drafter serves on all engines."""
    NO_DRAFTER = "NoDrafter"
    """The spec names no drafter."""
    ROLLING_OUT = "RollingOut"
    """The spec's drafter is being rolled out."""
    DRAFTER_REJECTED = "DrafterRejected"
    """The spec's drafter was tried and rejected; another one serves, or none."""
    DRAFTER_QUARANTINED = "DrafterQuarantined"
    """The spec's drafter was rejected before and is refused without another trial."""
    DRAFTING_OFF = "DraftingOff"
    """The spec says drafting: Off."""
    PINNED = "Pinned"
    """rollout.pinnedRevision names another revision than the spec's."""
    PAUSED = "Paused"
    """rollout.paused holds the rollout."""
    OBSERVING = "Observing"
    """mode is Observe: the operator sends no commands."""

    AS_WISHED = "AsWished"
    """Nothing is left to do."""
    JUDGING = "Judging"
    """A candidate serves and is being judged."""
    SWAPPING = "Swapping"
    """A candidate is staged, swapped in or probed."""
    WAITING_FOR_TRAFFIC = "WaitingForTraffic"
    """A candidate serves, but users' requests are missing to judge it by."""
    RESTARTING = "Restarting"
    """Engines restart one at a time."""
    APPLY_FAILED = "ApplyFailed"
    """An object could not be written, or an agent did not take a command; the operator goes on trying."""
    INVALID_SPEC = "InvalidSpec"
    """The object holds what the CRD does not allow, as one that was stored under a laxer CRD: nothing is done until it is applied anew."""
    PROGRESSING = "Progressing"
    """Not stalled."""

    PREFLIGHT_PASSED = "PreflightPassed"
    """The preflight of the spec's drafter found nothing that blocks."""
    PREFLIGHT_PENDING = "PreflightPending"
    """No preflight of the spec's drafter has ended yet."""
    PREFLIGHT_BLOCKED = "PreflightBlocked"
    """The preflight blocks the spec's drafter, so no engine is started; PreflightPassed says why."""
    PREFLIGHT_OFF = "PreflightOff"
    """preflight.mode is Off: nothing is judged before the engine loads it."""
    PREFLIGHT_NOT_RUN = "PreflightNotRun"
    """The preflight's Job ended without an answer; another one is made."""

    PROGRESS_DEADLINE_EXCEEDED = "ProgressDeadlineExceeded"
    """A rollout made no progress for rollout.progressDeadlineSeconds."""
    CLAIM_NOT_FOUND = "ClaimNotFound"
    """A PersistentVolumeClaim that the spec names doesn't exist."""
    CLAIM_ACCESS_MODE = "ClaimAccessMode"
    """More than one replica needs claims of access mode ReadOnlyMany or ReadWriteMany; engine.cacheClaim must be one that can be written,
    by several with ReadWriteMany."""
    IMAGE_NOT_ALLOWED = "ImageNotAllowed"
    """engine.image is not the operator's default, and has none of the prefixes that it allows."""
    IMAGE_PULL_FAILED = "ImagePullFailed"
    """The kubelet can't pull the engine image."""
    DRAFTER_NOT_FOUND = "DrafterNotFound"
    """The drafter's folder, or a file in it, isn't in its claim."""
    TARGET_NOT_FOUND = "TargetNotFound"
    """The target's folder, or a file in it, isn't in its claim."""
    UNSCHEDULABLE = "Unschedulable"
    """The scheduler finds no node for an engine."""
    CONTAINER_NOT_STARTED = "ContainerNotStarted"
    """The kubelet can't start an engine's container."""
    ENGINE_FAILED = "EngineFailed"
    """An engine's last start failed; the agent tries again."""
    FLOOR_IMPOSSIBLE = "FloorImpossible"
    """The floor is above numSteps + 1, which no drafter can reach."""
    REVISION_NOT_FOUND = "RevisionNotFound"
    """rollout.pinnedRevision names no revision of this server."""
    CANDIDATE_NOT_STARTED = "CandidateNotStarted"
    """An engine could not take the candidate, for a reason that isn't the drafter's; it is tried again."""

    CANDIDATE_SERVING = "CandidateServing"
    """Event: a candidate was swapped in and passed its probe."""
    PROMOTED = "Promoted"
    """Event: a revision became the one that engines start with."""
    ROLLED_BACK = "RolledBack"
    """Event: a candidate was taken back."""
    REFUSED = "Refused"
    """Event: a drafter never served; the message says why."""
    SUPERSEDED = "Superseded"
    """Event and outcome: the spec moved on before a revision was judged."""
    NOT_CONFIRMED = "NotConfirmed"
    """Event: a candidate went back by its dead-man switch; it is tried again."""
    ANSWERS_DIFFER = "AnswersDiffer"
    """Event: a warm-up's greedy answers were others with drafting than without, beyond near ties."""
    WOULD_HAVE = "WouldHave"
    """Event: what the operator would have done, were mode Enforce."""
    REQUEST_HANDLED = "RequestHandled"
    """Event: a request of the annotation specdec.dev/request was acted upon."""
    ABORTED_BY_USER = "AbortedByUser"
    """Outcome: a person aborted the rollout."""
    UNDONE_BY_USER = "UndoneByUser"
    """Outcome: a person returned to an earlier revision."""
    PROMOTED_BY_USER = "PromotedByUser"
    """Outcome: a person promoted the revision."""
    NEEDS_RESTART = "NeedsRestart"
    """The drafter can't be swapped in place; engines restart with it."""
    QUARANTINED = "Quarantined"
    """Outcome: the drafter's contents were rejected before, under another revision."""


def find(conditions: Sequence[Condition], type_: ConditionType) -> Condition | None:
    """Look a condition up."""
    return next((condition for condition in conditions if condition.type == type_), None)


def settle(new: Condition, before: Sequence[Condition]) -> Condition:
    """Keep the time of a condition whose status did not change."""
    old = next((condition for condition in before if condition.type == new.type), None)
    if old is None or old.status != new.status:
        return new
    return new.model_copy(update={"last_transition_time": old.last_transition_time})
