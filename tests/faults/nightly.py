"""`python -m tests.faults`: every fault point, ten thousand transitions, a thousand pauses and sixteen
pathologies of the metrics, into build/bench/nightly.json.

`--part K/N` takes every Nth of each; whoever runs the last of N parts has the whole in nightly.json as well. Parts of
another state of the code are not added to it: theirs has to be run again.
`--seconds S` ends after about that long; what was left out is not counted.
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import json
import logging
import multiprocessing
import random
import sys
import time
from collections import Counter
from collections.abc import Iterable
from typing import Any

from tests.faults import pathologies, pauses, points, transitions
from tests.faults.network import Channel, Place
from tests.faults.stories import STORIES
from tests.support.paths import ROOT

FOLDER = ROOT / "build" / "bench"
SOURCES = ("operator", "tests/faults", "tests/support")
STEPS = 10_000
STEPS_A_RUN = 20
PAUSES = 1_000
Row = dict[str, object]
Summary = dict[str, Any]
NAMES = tuple(pathologies.PATHOLOGIES)
Task = tuple[str, int, int, float]
"""Story (or none), which part of how many, and when to end, in Unix seconds."""


def chosen(of: points.Reference) -> list[Place]:
    """Places of the full run in an order of their own: of the Lease's many renewals every tenth."""
    found = [
        place for place in points.places(of) if place.channel is not Channel.LEASE or place.number % 10 == 0
    ]
    random.Random(of.story.name).shuffle(found)
    return found


def _reference(name: str) -> points.Reference:
    logging.disable(logging.CRITICAL)
    return points.reference(next(story for story in STORIES if story.name == name))


def story_points(task: Task) -> list[Row]:
    """Run one story's share of points; a row for each."""
    name, part, parts, end = task
    of, rows = _reference(name), []
    for place in chosen(of)[part::parts]:
        if time.time() > end:
            break
        found = points.outcome(of, place)
        where = f"{place.channel.value} {place.number} ({of.labels[place.channel, place.number]})"
        row: Row = {"story": name, "place": where, "fault": place.fault.value}
        rows.append({**row, "met": found.met, "wrong": found.wrong})
    return rows


def story_pauses(task: Task) -> list[Row]:
    """Run one story's share of pauses; a row for each."""
    name, part, parts, end = task
    of, rows = _reference(name), []
    for seed in range(part, PAUSES // len(STORIES) + 1, parts):
        if time.time() > end:
            break
        pause = pauses.drawn(seed)
        rows.append({"story": name, "pause": str(pause), "wrong": pauses.trial(of, pause)})
    return rows


def walk(task: Task) -> list[Row]:
    """Take one random walk; one row."""
    logging.disable(logging.CRITICAL)
    _, seed, _, end = task
    if time.time() > end:
        return []
    return [{"walk": seed, "wrong": transitions.walked(seed, STEPS_A_RUN)}]


def pathology(name: str) -> list[Row]:
    """Run one pathology of the metrics; one row."""
    logging.disable(logging.CRITICAL)
    return [{"pathology": name, "wrong": pathologies.trial(name)}]


def gathered(found: Iterable[list[Row]], total: int, what: str) -> list[Row]:
    """Gather rows, print those that are wrong, and say how far it is."""
    rows: list[Row] = []
    for done, some in enumerate(found, 1):
        rows += some
        for row in some:
            if row["wrong"]:
                print(json.dumps(row), flush=True)
        print(f"{what}: {done} of {total}", file=sys.stderr, flush=True)
    return rows


def main() -> int:
    """Run and write; says 1 where something ended elsewhere than it should."""
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--part", default="1/1", help="K/N: the Kth of N parts")
    words.add_argument("--seconds", type=float, default=float("inf"), help="end after about so long")
    words.add_argument("--processes", type=int, default=multiprocessing.cpu_count())
    given = words.parse_args()
    part, parts = (int(word) for word in given.part.split("/"))
    begun, state = time.time(), code()
    shares = [begun + given.seconds * share for share in (0.5, 0.65, 1.0)]
    told, paused, walks = (
        [(story.name, part - 1, parts, shares[0]) for story in STORIES],
        [(story.name, part - 1, parts, shares[1]) for story in STORIES],
        [("", seed, 0, shares[2]) for seed in range(part, STEPS // STEPS_A_RUN + 1, parts)],
    )
    with multiprocessing.get_context("spawn").Pool(given.processes) as pool:
        result = {
            "fault points": gathered(pool.imap_unordered(story_points, told), len(told), "stories"),
            "pauses": gathered(pool.imap_unordered(story_pauses, paused), len(paused), "stories with pauses"),
            "walks": gathered(pool.imap_unordered(walk, walks), len(walks), "walks"),
            "pathologies": gathered(
                pool.imap_unordered(pathology, NAMES[part - 1 :: parts]), len(NAMES), "metric pathologies"
            ),
        }
    summary = summed(result, time.time() - begun)
    return written(summary, part, parts, state)


def summed(result: dict[str, list[Row]], seconds: float) -> Summary:
    """Count what was run and what was wrong."""
    points_run = result["fault points"]
    return {
        "seconds": round(seconds),
        **{what: len(rows) for what, rows in result.items()},
        "transitions": len(result["walks"]) * STEPS_A_RUN,
        "fault points that were not met": sum(not row["met"] for row in points_run),
        "fault points by story": dict(Counter(str(row["story"]) for row in points_run)),
        "fault points by fault": dict(Counter(str(row["fault"]) for row in points_run)),
        "wrong": [row for rows in result.values() for row in rows if row["wrong"]],
    }


def together(one: Summary, other: Summary) -> Summary:
    """Add the counts of two parts up."""
    return {
        key: dict(Counter(value) + Counter(other[key])) if isinstance(value, dict) else value + other[key]
        for key, value in one.items()
    }


def code() -> str:
    """State of the code that a part was run on: of the operator, and of what tells the stories."""
    sources = [path for room in SOURCES for path in sorted((ROOT / room).rglob("*.py"))]
    return hashlib.sha256(
        b"".join(hashlib.sha256(path.read_bytes()).digest() for path in sources)
    ).hexdigest()


def written(summary: Summary, part: int, parts: int, state: str) -> int:
    """Keep and print what was run, and all parts together once they are there; says 1 where something was wrong."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    files = [FOLDER / f"nightly-{number}-of-{parts}.json" for number in range(1, parts + 1)]
    files[part - 1].write_text(json.dumps({"code": state, "summary": summary}, indent=1) + "\n")
    kept = [json.loads(path.read_text()) for path in files if path.exists()]
    found = [each["summary"] for each in kept if each.get("code") == state]
    if len(found) == parts:
        summary = functools.reduce(together, found)
        (FOLDER / "nightly.json").write_text(json.dumps(summary, indent=1) + "\n")
        for path in files:
            path.unlink()
    print(json.dumps({**summary, "wrong": len(summary["wrong"])}, indent=1))
    return 1 if summary["wrong"] else 0
