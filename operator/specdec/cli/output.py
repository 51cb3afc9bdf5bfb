"""How commands print: tables for people, JSON and YAML for programs, ages, colours only on a terminal."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

Function = TypeVar("Function", bound=Callable[..., Any])

COLOURS = {"True": "green", "False": "red", "Unknown": "yellow"}


def output_option(*more: str) -> Callable[[Function], Function]:
    """The option -o: json, yaml, and what else a command can."""
    return click.option(
        "-o",
        "--output",
        type=click.Choice(["json", "yaml", *more]),
        default=None,
        help="For programs, or wider.",
    )


def structured(output: str | None) -> bool:
    """Whether a program reads."""
    return output in {"json", "yaml"}


def dumped(value: Any, output: str | None) -> str:
    """Write a value for programs."""
    if output == "json":
        return json.dumps(value, indent=2, ensure_ascii=False) + "\n"
    import yaml

    text: str = yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=110)
    return text


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Lay out columns as kubectl does."""
    cells = [tuple(head), *(tuple(row) for row in rows)]
    widths = [max(len(click.unstyle(row[column])) for row in cells) for column in range(len(head))]
    return ["   ".join(padded(*pair) for pair in zip(row, widths, strict=True)).rstrip() for row in cells]


def padded(text: str, width: int) -> str:
    """Fill a cell up; colours take no room."""
    return text + " " * (width - len(click.unstyle(text)))


def age(at: str, now: float) -> str:
    """Say how long ago a time was, as kubectl does: the two largest units where they matter."""
    from specdec.rollout.clock import seconds

    then = seconds(at)
    if then is None:
        return "-"
    total = max(0, int(now - then))
    for size, unit, below, smaller in ((86400, "d", 3600, "h"), (3600, "h", 60, "m"), (60, "m", 1, "s")):
        if total >= size * 2:
            rest = total % size // below
            return f"{total // size}{unit}" + (f"{rest}{smaller}" if rest and total < size * 10 else "")
    return f"{total}s"
