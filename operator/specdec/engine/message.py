"""What every message is made of, and what counters say: all that SGLang's own processes load of the protocol.

They import the plugin one after the other while a start waits. So this imports pydantic alone, and its models'
docstrings stay in the source: pydantic finds them by looking at every module of the process.
"""

from __future__ import annotations

from enum import StrEnum

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel


class Message(BaseModel):
    """Base of all messages: camelCase on the wire, frozen, tolerant of unknown fields."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        frozen=True,
        extra="ignore",
    )


class Drafting(StrEnum):
    """Whether the engine drafts."""

    ON = "On"
    OFF = "Off"


class Source(StrEnum):
    """Whose requests a counter counts."""

    TRAFFIC = "traffic"
    """Users' requests that were admitted while this revision served."""
    PROBE = "probe"
    """The agent's own requests."""
    CARRIED = "carried"
    """Users' requests admitted under an older revision: their draft KV is not this drafter's own."""


class Counters(Message):
    """Sums since the engine's process started, for one revision, step count and source.

    The unit of evidence is the request: the three cross sums give the cluster-robust variance of
    `drafts / calls` (a ratio estimator over requests). Only requests with at least one verify call
    count; a request that still runs is in `calls` and `correct`, not yet in `requests` and the cross sums.
    """

    revision: str
    steps: int
    source: Source
    requests: int = 0
    calls: int = 0
    """Verify calls: one request in one verify batch with steps >= 1."""
    correct: tuple[int, ...] = ()
    """Correct drafts per position; their sum / calls + 1 is the accept length."""
    tokens: int = 0
    """Kept tokens of decode, with steps >= 0."""
    seconds: str = "0"
    """Sum over decode batches of wall seconds, decimal string."""
    request_seconds: str = "0"
    """Sum over decode batches of wall seconds x these requests in the batch: tokens / this is a request's speed."""
    dd: int = 0
    """Sum over finished requests of drafts^2."""
    dc: int = 0
    """Sum over finished requests of drafts * calls."""
    cc: int = 0
    """Sum over finished requests of calls^2."""
    finished_drafts: int = 0
    finished_calls: int = 0
