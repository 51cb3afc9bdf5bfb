"""Times as the agent's API writes them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta


def now_text(after_seconds: float = 0.0) -> str:
    """RFC 3339 in UTC with microseconds."""
    moment = datetime.now(UTC) + timedelta(seconds=after_seconds)
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")
