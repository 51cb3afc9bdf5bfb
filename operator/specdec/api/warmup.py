"""What the status says of an engine before it had users."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from specdec.api.base import ApiModel


class WarmupSpeed(ApiModel):
    """Speed of one engine at one batch size, before it had users."""

    batch: int
    """Requests at once."""
    drafting: str = ""
    """Tokens a second of all of them together with drafting, a decimal string."""
    without: str = ""
    """The same with drafting off, a decimal string."""


class WarmupStatus(ApiModel):
    """What the newest warm-up of an engine showed: the first baseline, before users' requests."""

    revision: str
    """The revision that it was of."""
    accept_length: str = ""
    """1 + correct drafts / verify calls of the agent's own requests, a decimal string; "" where nothing drafted."""
    per_position: tuple[str, ...] = ()
    """Share of verify calls in which the draft at each position was right."""
    speeds: Annotated[tuple[WarmupSpeed, ...], Field(max_length=4)] = ()
    """Tokens a second with drafting and without, by batch size."""
    answers: str = ""
    """Same, Different or Unknown: greedy answers with drafting against those without, up to near ties."""
    images: str = ""
    """Answered or Failed: what became of one image that the agent asked about; "" where the target takes none."""
    plain_off: bool = False
    """Whether an engine with drafting off decodes as one without a drafter; else off costs more than that."""
    message: str = ""
    """What stood in the way, in a sentence."""
    at: str
    """When it ended, RFC 3339."""
