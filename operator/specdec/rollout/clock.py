"""Times as the API and the agents write them."""

from __future__ import annotations

from datetime import UTC, datetime


def seconds(text: str) -> float | None:
    """Read an RFC 3339 time; None where there is none or it can't be read."""
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return None


def text(now: float) -> str:
    """Write a time for conditions, to the second."""
    return datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def exact(now: float) -> str:
    """Write a time that is compared with an agent's, to the microsecond."""
    return datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
