"""From the records of the demo to its figures and to whether each promise was kept. Pure."""

from __future__ import annotations

import math
import statistics
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

Record = dict[str, Any]


def unix(stamp: str) -> float | None:
    """Seconds since the epoch of an RFC 3339 time, None for an empty one."""
    return datetime.fromisoformat(stamp).timestamp() if stamp else None


@dataclass
class Window:
    """What users got in a stretch of time."""

    requests: int
    accept_length: float
    tokens_per_second: float
    interval: tuple[float, float]
    """95 % interval of the mean of tokens per second."""


def window(requests: list[Record]) -> Window:
    """Sum up requests: accept length over all their verify calls, speed as a mean with its interval."""
    good = [r for r in requests if not r["error"]]
    calls, drafts = sum(r["calls"] for r in good), sum(r.get("drafts", 0) for r in good)
    speeds = [speed(r) for r in good]
    mean = statistics.fmean(speeds) if speeds else 0.0
    half = 1.96 * statistics.stdev(speeds) / math.sqrt(len(speeds)) if len(speeds) > 1 else 0.0
    length = 1 + drafts / calls if calls else 0.0
    return Window(len(good), round(length, 3), round(mean, 1), (round(mean - half, 1), round(mean + half, 1)))


def speed(request: Record) -> float:
    """Tokens per second that a user saw, from asking to the last token: short answers come in one piece."""
    return float(request["tokens"] / (request["end"] - request["start"]))


@dataclass
class Chapter:
    """One apply and what became of it."""

    version: str
    drafter: str
    promise: str
    applied: float
    outcome: str = ""
    reason: str = ""
    sentence: str = ""
    """What the operator wrote beside the revision."""
    swapped: float | None = None
    verdict: float | None = None
    back: float | None = None
    done: float = 0.0
    swap_seconds: float | None = None
    back_seconds: float | None = None
    in_flight: int = 0
    touched: int = 0
    verify_calls: int | None = None
    before: Window | None = None
    during: Window | None = None
    after: Window | None = None


def from_candidate(chapter: Chapter, candidate: Record) -> None:
    """Take over what the agent says of the candidate of this chapter."""
    chapter.swapped, chapter.back = unix(candidate.get("swappedAt", "")), unix(candidate.get("backAt", ""))
    for name, key in (("swap_seconds", "swapSeconds"), ("back_seconds", "backSeconds")):
        if candidate.get(key):
            setattr(chapter, name, float(candidate[key]))
    chapter.in_flight = candidate.get("requestsAtSwap", 0)


def touched(requests: list[Record], begin: float, end: float) -> list[Record]:
    """Requests that ran for any moment between two times."""
    return [r for r in requests if r["start"] < end and r["end"] > begin]


@dataclass
class Promise:
    """One promise of the demo, with what was found."""

    text: str
    found: str
    kept: bool


@dataclass
class Result:
    """All that the demo measured."""

    chapters: list[Chapter] = field(default_factory=list)
    requests: int = 0
    failed_requests: int = 0
    pods_first: dict[str, str] = field(default_factory=dict)
    pods_last: dict[str, str] = field(default_factory=dict)
    restarts: int = 0
    spec_writers: list[str] = field(default_factory=list)
    promises: list[Promise] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Everything as plain data."""
        return asdict(self)


def at_most(text: str, value: float | None, bar: float, unit: str = "s") -> Promise:
    """A promise that a value exists and is no more than a bar."""
    return Promise(
        f"{text} <= {bar:g} {unit}",
        "not measured" if value is None else f"{value:.2f} {unit}",
        value is not None and value <= bar,
    )


def spec_writers(managed: list[Record]) -> list[str]:
    """Field managers that own any field of `.spec`."""
    return sorted({m["manager"] for m in managed if "f:spec" in m.get("fieldsV1", {})})


def judge(result: Result) -> list[Promise]:
    """Check everything that the demo promises."""
    by_name = {c.version: c for c in result.chapters}
    v4, v5, again = by_name["v4"], by_name["v5"], by_name["v4 again"]
    promises = [
        *of_preflight(by_name),
        Promise(
            "no request failed", f"{result.failed_requests} of {result.requests}", not result.failed_requests
        ),
        Promise(
            "every engine pod is the one of the start",
            str(result.pods_last),
            result.pods_first == result.pods_last,
        ),
        Promise("no container restarted", str(result.restarts), result.restarts == 0),
        Promise(
            "the operator never wrote .spec",
            str(result.spec_writers),
            "specdec-operator" not in result.spec_writers,
        ),
        Promise("v2 was promoted in place", by_name["v2"].outcome, by_name["v2"].outcome == "Promoted"),
        Promise(
            "v4 was caught by the agent's probe", v4.reason, v4.outcome == "Rejected" and v4.back is not None
        ),
        Promise(
            "v5 was caught on live traffic", v5.reason, v5.outcome == "Rejected" and v5.reason == "BelowFloor"
        ),
        Promise(
            "v4 was refused again without being swapped in",
            again.reason,
            again.outcome == "Rejected" and again.swapped is None,
        ),
        at_most("v4 away again after its swap", span(v4.swapped, v4.back), 5),
        at_most("v5's verify calls of live traffic before the verdict", v5.verify_calls, 64, "calls"),
        at_most("v5 away again after the verdict", span(v5.verdict, v5.back), 3),
        at_most("requests touched by v4 beyond those in flight", v4.touched - v4.in_flight, 3, "requests"),
    ]
    for chapter in result.chapters:
        promises += speed_of(chapter) + recovery_of(chapter)
    return promises


def of_preflight(by_name: dict[str, Chapter]) -> list[Promise]:
    """Check what headers alone show: before the load, at the load, and what is mended."""
    v2, v3, off, v6 = (by_name[version] for version in ("v2", "v3", "v3 off", "v6"))
    drift = abs(v6.after.accept_length / v2.after.accept_length - 1) * 100 if v6.after and v2.after else None
    return [
        Promise(
            "v3 was blocked by the preflight and never loaded",
            v3.reason or "served",
            v3.outcome == "Rejected" and v3.swapped is None and v3.sentence.startswith("preflight:"),
        ),
        at_most("v3 from apply to its refusal", span(v3.applied, v3.verdict), 10),
        Promise(
            "v3 without a preflight was refused by the load and never served",
            off.reason or "served",
            off.outcome == "Rejected" and off.swapped is None and not off.sentence.startswith("preflight:"),
        ),
        Promise("v6 was mended and promoted", v6.outcome, v6.outcome == "Promoted"),
        at_most("v6: accept length against v2, the same drafter with the engine's names", drift, 2, "%"),
    ]


def span(begin: float | None, end: float | None) -> float | None:
    """Seconds from one time to another, None unless both are known."""
    return None if begin is None or end is None else end - begin


def speed_of(chapter: Chapter) -> list[Promise]:
    """Check that swaps in and back are fast."""
    named = (
        ("swap", chapter.swapped, chapter.swap_seconds),
        ("swap back", chapter.back, chapter.back_seconds),
    )
    return [at_most(f"{chapter.version}: {name}", value, 2) for name, happened, value in named if happened]


def recovery_of(chapter: Chapter) -> list[Promise]:
    """Check that the accept length after a rollback is what it was before."""
    if chapter.outcome != "Rejected" or not chapter.before or not chapter.after:
        return []
    drift = abs(chapter.after.accept_length / chapter.before.accept_length - 1) * 100
    return [at_most(f"{chapter.version}: accept length after against before", drift, 2, "%")]
