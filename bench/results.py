"""Rows of a benchmark: kept as JSON, printed as a table."""

from __future__ import annotations

import json
import math
import statistics
from dataclasses import asdict, dataclass
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "build" / "bench"


@dataclass(frozen=True)
class Row:
    """One figure against its bar; `met` is None where there is no bar."""

    row: str
    value: float
    unit: str
    bar: float | None = None
    against: str = ""
    n: int = 1
    spread: str = ""
    least: bool = False
    """Whether the bar is the least that is wanted, and not the most."""

    @property
    def met(self) -> bool | None:
        """Whether the value is at most the bar, or at least."""
        if self.bar is None:
            return None
        return self.value >= self.bar if self.least else self.value <= self.bar


def measured(row: str, values: list[float], unit: str, bar: float | None = None, against: str = "") -> Row:
    """Make a row of repeated measurements: their median, and the range."""
    spread = f"{min(values):.3g} to {max(values):.3g}"
    return Row(row, round(statistics.median(values), 4), unit, bar, against, len(values), spread)


def percentile(samples: list[float], percent: int) -> float:
    """Nearest rank: the smallest sample that so many percent of all do not exceed."""
    return sorted(samples)[math.ceil(len(samples) * percent / 100) - 1]


def ranked(row: str, samples: list[float], percent: int, unit: str, bar: float | None = None) -> Row:
    """Make a row of one percentile of many samples; below 100 samples p99 is their maximum."""
    spread = f"p50 {percentile(samples, 50):.3g}, max {max(samples):.3g}"
    value = round(percentile(samples, percent), 4)
    return Row(f"{row}, p{percent}", value, unit, bar, n=len(samples), spread=spread)


def write(name: str, rows: list[Row]) -> None:
    """Keep and print the rows."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    content = [asdict(row) | {"met": row.met} for row in rows]
    (FOLDER / f"{name}.json").write_text(json.dumps(content, indent=1) + "\n")
    for row in rows:
        limit = ">=" if row.least else "<="
        bar = (
            ""
            if row.bar is None
            else f"bar {limit} {row.bar:g} {row.unit}, {'met' if row.met else 'NOT MET'}"
        )
        print(f"{row.row:66} {row.value:>9g} {row.unit:5} {bar:26} n={row.n} {row.spread}")
