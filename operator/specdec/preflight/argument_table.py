"""Which SGLang version knows which command-line argument; `arguments.json` is made from the wheels."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from specdec.preflight.capabilities import TABLE, normalised_version

PATH = Path(__file__).with_name("arguments.json")


@dataclass(frozen=True)
class Span:
    """Versions of the table that know an argument, oldest to newest."""

    first: str
    last: str
    instead: str = ""
    """What the newest of them says to use, if it calls the argument deprecated."""

    def holds(self, version: str) -> bool:
        """Whether a listed version knows it."""
        order = list(TABLE)
        return order.index(self.first) <= order.index(version) <= order.index(self.last)

    def to_json(self) -> list[str]:
        """Short form for the file."""
        return [self.first, self.last, self.instead] if self.instead else [self.first, self.last]


@functools.cache
def spans() -> Mapping[str, Span]:
    """Arguments of all listed versions."""
    return {name: Span(*row) for name, row in json.loads(PATH.read_text()).items()}


def known_arguments(version: str) -> Mapping[str, Span] | None:
    """Arguments that a version knows; None if the version is not listed."""
    base = normalised_version(version).partition(".post")[0]
    if base not in TABLE:
        return None
    return {name: span for name, span in spans().items() if span.holds(base)}


def spans_of(names: Mapping[str, Mapping[str, str]]) -> dict[str, Span]:
    """Fold the arguments of each version, oldest first, into spans; no argument ever came back."""
    found: dict[str, Span] = {}
    for version, arguments in names.items():
        for name, instead in arguments.items():
            first = found[name].first if name in found else version
            found[name] = Span(first, version, instead)
    return found
