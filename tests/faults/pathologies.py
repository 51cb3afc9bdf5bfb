"""Sixteen ways in which an engine's counters can be wrong: none may cost a good drafter, or promote a bad one.

Each is met three times: at rest, by a good candidate and by a bad one, and ends after a while; then all must be
as it is without it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from tests.support.scenario import Scenario, Telling

from specdec.engine.protocol import Counters, Rollback

FLOOR = "2.2"
WRONG_SECONDS = 120.0
RIGHT_SECONDS = 180.0
Rows = tuple[Counters, ...]


def each(change: Callable[[Counters], dict[str, Any]]) -> Callable[[], Telling]:
    """Change every row alike."""
    return lambda: lambda rows: tuple(row.model_copy(update=change(row)) for row in rows)


def sums(row: Counters, factor: float) -> dict[str, Any]:
    """All sums times so much."""
    names = (
        "requests",
        "calls",
        "tokens",
        "dd",
        "dc",
        "cc",
        "finished_drafts",
        "finished_calls",
    )
    whole = {name: int(getattr(row, name) * factor) for name in names}
    seconds = f"{float(row.request_seconds) * factor:.6f}"
    return {
        **whole,
        "correct": tuple(int(item * factor) for item in row.correct),
        "request_seconds": seconds,
    }


def stuck() -> Telling:
    """Tell the first answer for ever."""
    said: list[Rows] = []

    def telling(rows: Rows) -> Rows:
        said.append(rows)
        return said[0]

    return telling


def late() -> Telling:
    """Tell what was true twenty answers ago."""
    said: list[Rows] = []

    def telling(rows: Rows) -> Rows:
        said.append(rows)
        return said[max(0, len(said) - 20)]

    return telling


def now_and_then(otherwise: Callable[[], Telling]) -> Callable[[], Telling]:
    """Tell something else in every third answer."""

    def begun() -> Telling:
        turns, other = itertools.count(), otherwise()
        return lambda rows: other(rows) if next(turns) % 3 == 0 else rows

    return begun


PATHOLOGIES: dict[str, Callable[[], Telling]] = {
    "no counters at all": lambda: lambda _: (),
    "all zero": each(lambda row: sums(row, 0)),
    "zero in every third answer": now_and_then(each(lambda row: sums(row, 0))),
    "absent in every third answer": now_and_then(lambda: lambda _: ()),
    "stuck": stuck,
    "twenty answers late": late,
    "half of everything in every third answer": now_and_then(each(lambda row: sums(row, 0.5))),
    "everything twice": each(lambda row: sums(row, 2)),
    "negative": each(lambda row: sums(row, -1)),
    "more correct drafts than drafts": each(lambda row: {"correct": (row.calls * 9,) * row.steps}),
    "positions in the wrong order": each(lambda row: {"correct": row.correct[::-1]}),
    "one position too few": each(lambda row: {"correct": row.correct[:-1]}),
    "seconds that are no number": each(lambda _: {"request_seconds": "NaN", "seconds": "NaN"}),
    "endless seconds": each(lambda _: {"request_seconds": "Infinity", "seconds": "Infinity"}),
    "cross sums of nothing": each(lambda _: {"dd": 0, "dc": 0, "cc": 0}),
    "another revision's name": each(lambda _: {"revision": "kimi-0000000000"}),
}


def serving() -> Scenario:
    """v2 serves, was judged and has traffic; v3 is as good, v5 is bad on live traffic."""
    scenario = Scenario()
    scenario.given.drafters(v2=0.8, v3=0.8, v5=0.4).server("v2", floor=FLOOR).traffic(1)
    scenario.when.time(60)
    return scenario


def trial(name: str) -> list[str]:
    """Meet one pathology three times; returns what was done wrong."""
    begun = PATHOLOGIES[name]
    return [
        *_met(begun(), None, after="v2", never_good="v5"),
        *_met(begun(), "v3", after="v3", never_good="v5"),
        *_met(begun(), "v5", after="v2", never_good="v5"),
    ]


def _met(telling: Telling, candidate: str | None, *, after: str, never_good: str) -> list[str]:
    scenario = serving()
    if candidate:
        scenario.when.drafter(candidate).time(4)
    scenario.when.engines_tell(telling).time(WRONG_SECONDS)
    wrong = _looked(scenario, candidate, "while", never_good)
    scenario.when.engines_tell(tuple).time(RIGHT_SECONDS)
    wrong += _looked(scenario, candidate, "after", never_good)
    good = scenario.cluster.status.last_good
    if good is None or good.version != after:
        wrong.append(
            f"{candidate or 'at rest'}: {good.version if good else None} is good in the end, not {after}"
        )
    return wrong


def _looked(scenario: Scenario, candidate: str | None, when: str, never_good: str) -> list[str]:
    what = candidate or "at rest"
    good = scenario.cluster.status.last_good
    drafting = {pod.agent.status().drafting.value for pod in scenario.cluster.pods.values()}
    wrong = [f"{what}: drafting is {drafting} {when}"] if drafting != {"On"} else []
    if good is not None and good.version == never_good:
        wrong.append(f"{what}: the bad one was promoted {when}")
    if candidate != never_good and scenario.then.told(Rollback):
        wrong.append(f"{what}: a good one was taken back {when}")
    if scenario.cluster.made > 1:
        wrong.append(f"{what}: an engine was restarted {when}")
    return wrong
