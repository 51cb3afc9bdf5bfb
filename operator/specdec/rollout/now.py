"""Now, as the rules of a pass see it: it notes for how long each of them answers as it does.

A rule that waits for something compares how long ago that was, `now - then`, with a limit. So no rule has to name its
deadline beside what it decides, and none can be forgotten.
"""

from __future__ import annotations

from math import inf
from typing import Self

from typing_extensions import override


class Now(float):
    """Unix seconds at which a pass is made."""

    def __init__(self, _at: float) -> None:
        self.holds = inf
        """Seconds until time alone makes a rule that was asked answer otherwise."""

    @classmethod
    def at(cls, now: float) -> Now:
        """Make one, unless it is one already."""
        return now if isinstance(now, Now) else cls(now)

    @override
    def __sub__(self, then: float, /) -> Elapsed:
        return Elapsed(float(self) - float(then), self)


class Elapsed(float):
    """Seconds from a moment until now."""

    def __new__(cls, seconds: float, _now: Now) -> Self:
        """Be as long."""
        return super().__new__(cls, seconds)

    def __init__(self, _seconds: float, now: Now) -> None:
        self._now = now

    def _compared(self, limit: float) -> float:
        """Note when a limit that is ahead will be reached."""
        if limit >= float(self):
            self._now.holds = min(self._now.holds, limit - float(self))
        return float(self)

    @override
    def __ge__(self, limit: float, /) -> bool:
        return self._compared(limit) >= limit

    @override
    def __gt__(self, limit: float, /) -> bool:
        return self._compared(limit) > limit

    @override
    def __le__(self, limit: float, /) -> bool:
        return self._compared(limit) <= limit

    @override
    def __lt__(self, limit: float, /) -> bool:
        return self._compared(limit) < limit
