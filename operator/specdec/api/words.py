"""The words of `status.rollout` and `status.phase`, each with what it means."""

from __future__ import annotations

from enum import StrEnum


class RolloutWord(StrEnum):
    """Where the rollout of the spec's drafter is: `status.rollout`."""

    STARTING = "Starting"
    """Engines are wanted, and none answers yet."""
    PREFLIGHT = "Preflight"
    """The drafter's files are judged before an engine starts with it."""
    RESTARTING = "Restarting"
    """Engines restart one at a time."""
    PENDING = "Pending"
    """The drafter serves nowhere yet, and nothing is under way."""
    STAGING = "Staging"
    """An engine reads and checks the candidate; the old drafter serves."""
    SWAPPING = "Swapping"
    """The candidate is copied in."""
    PROBING = "Probing"
    """The candidate serves, and the agent asks its own requests."""
    JUDGING = "Judging"
    """The candidate serves, and live traffic judges it."""
    PAUSED = "Paused"
    """rollout.paused holds the rollout."""
    DRAFTING_OFF = "DraftingOff"
    """The spec says drafting: Off."""
    IDLE = "Idle"
    """The drafter of the spec serves, or nothing is asked for: no engines are wanted, or mode is Observe."""
    ROLLED_BACK = "RolledBack"
    """The drafter served, was found bad and was taken back."""
    REFUSED = "Refused"
    """The drafter was rejected otherwise: by its files, by an engine, or as quarantined."""
    ABORTED = "Aborted"
    """A person aborted the rollout."""
    UNDONE = "Undone"
    """A person returned to an earlier revision."""


FAILED_ENDS = frozenset(
    {RolloutWord.ROLLED_BACK, RolloutWord.REFUSED, RolloutWord.ABORTED, RolloutWord.UNDONE}
)
"""Ends of a rollout that only another spec or a retry leaves."""


class ServerPhase(StrEnum):
    """The conditions in one word: `status.phase`."""

    STARTING = "Starting"
    """Not Ready, and on its way."""
    FAILED = "Failed"
    """Not Ready, and Stalled."""
    DEGRADED = "Degraded"
    """Ready, and Stalled: users are served, the spec is not met."""
    ROLLING_OUT = "RollingOut"
    """Ready, and Reconciling."""
    SERVING = "Serving"
    """Ready, and nothing under way."""
