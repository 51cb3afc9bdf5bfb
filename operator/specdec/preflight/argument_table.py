"""Which SGLang version knows which command-line argument; `arguments.json` is made from the wheels."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specdec.preflight.capabilities import TABLE, normalised_version

PATH = Path(__file__).with_name("arguments.json")


@dataclass(frozen=True)
class Known:
    """Versions of the table that know an argument."""

    runs: tuple[tuple[str, str], ...]
    """First and last of each run; some arguments went and came back."""
    instead: str = ""
    """What the newest of them says to use, if it calls the argument deprecated."""

    def holds(self, version: str) -> bool:
        """Whether a listed version knows it."""
        order = list(TABLE)
        place = order.index(version)
        return any(order.index(first) <= place <= order.index(last) for first, last in self.runs)

    def to_json(self) -> dict[str, Any]:
        """Short form for the file."""
        runs = [f"{first} {last}" for first, last in self.runs]
        return {"in": runs, "instead": self.instead} if self.instead else {"in": runs}

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> Known:
        """Read the short form."""
        runs = tuple((run.split()[0], run.split()[1]) for run in row["in"])
        return cls(runs, row.get("instead", ""))


@functools.cache
def _table() -> Mapping[str, Known]:
    return {name: Known.from_json(row) for name, row in json.loads(PATH.read_text()).items()}


@functools.cache
def known_arguments(version: str) -> Mapping[str, Known] | None:
    """Arguments that a version knows; None if the version is not listed."""
    base = normalised_version(version).partition(".post")[0]
    if base not in TABLE:
        return None
    return {name: known for name, known in _table().items() if known.holds(base)}


def folded(names: Mapping[str, Mapping[str, str]]) -> dict[str, Known]:
    """Fold the arguments of each version, oldest first, into runs."""
    found: dict[str, Known] = {}
    before: set[str] = set()
    last = ""
    for version, arguments in names.items():
        for name, instead in arguments.items():
            runs = found[name].runs if name in found else ()
            goes_on = name in before and runs[-1:] and runs[-1][1] == last
            runs = (*runs[:-1], (runs[-1][0], version)) if goes_on else (*runs, (version, version))
            found[name] = Known(runs, instead)
        before, last = set(arguments), version
    return found


def text_of(table: Mapping[str, Known]) -> str:
    """Content of the file: one argument a line."""
    rows = [f"{json.dumps(name)}: {json.dumps(known.to_json())}" for name, known in sorted(table.items())]
    return "{\n" + ",\n".join(rows) + "\n}\n"
