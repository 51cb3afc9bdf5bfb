"""What the judge says of a drafter."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from specdec.acceptance.baseline import Pace


class Judgement(StrEnum):
    """A verdict is never a bare bool: no data is Unknown and never rolls back."""

    HEALTHY = "Healthy"
    """Enough evidence that nothing is wrong."""
    UNHEALTHY = "Unhealthy"
    """A layer found the drafter bad, beyond its error budget."""
    UNKNOWN = "Unknown"
    """Too little evidence, or evidence that can't be trusted; `reason` says which."""


class Layer(StrEnum):
    """Reasons of Healthy and Unhealthy: which layer of the judge spoke."""

    DEAD_DRAFTER = "DeadDrafter"
    """No draft is accepted: a probe failed, or live traffic shows an accept length of 1."""
    BELOW_FLOOR = "BelowFloor"
    """The accept length is below the user's floor."""
    WORSE_THAN_ACTIVE = "WorseThanActive"
    """The candidate's accept length is below the active's by more than acceptance.maxRegression: beside it on the same traffic, or after it on the only engine and in the probes."""
    SLOWER_THAN_NO_DRAFTING = "SlowerThanNoDrafting"
    """Under the live load tokens come slower with drafting than without it; drafting is off until it pays again."""
    ABOVE_FLOOR = "AboveFloor"
    """Enough requests, and the accept length is at or above the floor."""
    ALIVE = "Alive"
    """Enough requests, drafts are accepted, and the user set no floor."""


class Doubt(StrEnum):
    """Reasons of Unknown: why nothing can be said."""

    NO_TRAFFIC = "NoTraffic"
    """No user's request was finished with this drafter."""
    INSUFFICIENT_DATA = "InsufficientData"
    """Fewer distinct requests than acceptance.minRequests."""
    NEAR_FLOOR = "NearFloor"
    """The accept length is below the floor, but chance can explain it."""
    NEAR_ACTIVE = "NearActive"
    """The candidate is behind the active drafter on the same traffic, but chance can explain it."""
    STICKY_ROUTING = "StickyRouting"
    """The candidate looks worse than the active drafter, but engines with equal drafters differ as well: the traffic does."""
    ROUTING_UNCHECKED = "RoutingUnchecked"
    """The candidate looks worse than the active drafter, but whether engines get the same traffic is not known."""
    ENGINES_SILENT = "EnginesSilent"
    """No agent answers."""
    COUNTERS_IMPOSSIBLE = "CountersImpossible"
    """An engine reports sums that contradict each other."""
    PROBE_CONTRADICTS = "ProbeContradictsTraffic"
    """Live traffic looks bad, but the agent's own requests are accepted well: the traffic is odd, not the drafter."""


@dataclass(frozen=True)
class Verdict:
    """A judgement with its evidence."""

    judgement: Judgement
    reason: str
    """CamelCase: the layer (DeadDrafter, BelowFloor) or the doubt (InsufficientData, EnginesSilent ...)."""
    message: str
    """One sentence with value, relation, limit and window."""
    accept_length: float | None = None
    requests: int = 0
    calls: int = 0
    per_position: tuple[float, ...] = ()
    needs_probe: bool = False
    """Live traffic looks bad; a probe must confirm it before anything moves."""
    speedup: float | None = None
    """Speed with drafting over that without; None where it was not measured."""
    pace: Pace = Pace.UNKNOWN
