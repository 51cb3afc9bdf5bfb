"""Which SGLang version knows which command-line argument; `arguments.json` is made from the wheels."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specdec.preflight.capabilities import TABLE, capabilities, normalised_version

PATH = Path(__file__).with_name("arguments.json")


@dataclass(frozen=True)
class Known:
    """Versions of the table that know an argument."""

    runs: tuple[tuple[str, str], ...]
    """First and last of each run; some arguments went and came back."""
    instead: str = ""
    """What the newest of them says to use, if it calls the argument deprecated."""
    since: str = ""
    """The first that calls it so."""

    def holds(self, version: str) -> bool:
        """Whether a listed version knows it."""
        order = list(TABLE)
        place = order.index(version)
        return any(order.index(first) <= place <= order.index(last) for first, last in self.runs)

    def deprecated_in(self, version: str) -> bool:
        """Whether a listed version calls it deprecated."""
        order = list(TABLE)
        return bool(self.since) and order.index(version) >= order.index(self.since)

    def to_json(self) -> dict[str, Any]:
        """Short form for the file."""
        runs = [f"{first} {last}" for first, last in self.runs]
        deprecated = {"instead": self.instead, "since": self.since} if self.instead else {}
        return {"in": runs, **deprecated}

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> Known:
        """Read the short form."""
        runs = tuple((run.split()[0], run.split()[1]) for run in row["in"])
        return cls(runs, row.get("instead", ""), row.get("since", ""))


@functools.cache
def _table() -> Mapping[str, Known]:
    return {name: Known.from_json(row) for name, row in json.loads(PATH.read_text()).items()}


@functools.cache
def known_arguments(version: str) -> Mapping[str, Known] | None:
    """Arguments that a version knows; None if the version is not listed."""
    if capabilities(version) is None:
        return None
    base = normalised_version(version).partition(".post")[0]
    return {name: known for name, known in _table().items() if known.holds(base)}


def deprecated_arguments(version: str) -> Mapping[str, str]:
    """Arguments that a version calls deprecated, and what it says to use."""
    base = normalised_version(version).partition(".post")[0]
    known = known_arguments(version) or {}
    return {name: row.instead for name, row in known.items() if row.deprecated_in(base)}


def folded(names: Mapping[str, Mapping[str, str]]) -> dict[str, Known]:
    """Fold the arguments of each version, oldest first, into runs."""
    found: dict[str, Known] = {}
    before: set[str] = set()
    last = ""
    for version, arguments in names.items():
        for name, instead in arguments.items():
            earlier = found.get(name, Known(()))
            runs = earlier.runs
            goes_on = name in before and runs[-1:] and runs[-1][1] == last
            runs = (*runs[:-1], (runs[-1][0], version)) if goes_on else (*runs, (version, version))
            found[name] = Known(runs, instead, (earlier.since or version) if instead else "")
        before, last = set(arguments), version
    return found


def text_of(table: Mapping[str, Known]) -> str:
    """Content of the file: one argument a line."""
    rows = [f"{json.dumps(name)}: {json.dumps(known.to_json())}" for name, known in sorted(table.items())]
    return "{\n" + ",\n".join(rows) + "\n}\n"
