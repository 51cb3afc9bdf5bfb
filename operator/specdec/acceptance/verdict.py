"""What the judge says of a drafter."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Judgement(StrEnum):
    """A verdict is never a bare bool: no data is Unknown and never rolls back."""

    HEALTHY = "Healthy"
    """Enough evidence that nothing is wrong."""
    UNHEALTHY = "Unhealthy"
    """A layer found the drafter bad, beyond its error budget."""
    UNKNOWN = "Unknown"
    """Too little evidence, or evidence that can't be trusted; `reason` says which."""


@dataclass(frozen=True)
class Verdict:
    """A judgement with its evidence."""

    judgement: Judgement
    reason: str
    """CamelCase: the layer (DeadDrafter, BelowFloor) or the state (InsufficientData, EnginesSilent ...)."""
    message: str
    """One sentence with value, relation, limit and window."""
    accept_length: float | None = None
    requests: int = 0
    calls: int = 0
    per_position: tuple[float, ...] = ()
    needs_probe: bool = False
    """Live traffic looks bad; a probe must confirm it before anything moves."""
