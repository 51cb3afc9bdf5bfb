"""Rows of results, and the statistics that stand in them."""

from __future__ import annotations

import json
import statistics
from typing import Any

Rows = list[dict[str, Any]]

T_975 = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20, 2.18, 2.16, 2.14, 2.13)
"""Student's t for a two-sided interval of 95 %, by degrees of freedom from 1 on."""


def say(rows: Rows, what: str, value: float, unit: str, **more: Any) -> None:
    """Add a row and print it."""
    row = {"what": what, "value": round(value, 4), "unit": unit, **more}
    rows.append(row)
    print(json.dumps(row))


def ratio(above: list[float], below: list[float]) -> dict[str, Any]:
    """Mean ratio of paired rounds with its interval of 95 %, and the medians of both."""
    ratios = [one / other for one, other in zip(above, below, strict=True)]
    mean, half = interval(ratios)
    return {
        "ratio": round(mean, 4),
        "interval": [round(mean - half, 4), round(mean + half, 4)],
        "n": len(ratios),
        "medians": [round(statistics.median(above), 1), round(statistics.median(below), 1)],
    }


def interval(values: list[float]) -> tuple[float, float]:
    """Mean and half the width of its interval of 95 %."""
    freedom = len(values) - 1
    t = T_975[freedom - 1] if freedom <= len(T_975) else 1.98
    return statistics.fmean(values), t * statistics.stdev(values) / len(values) ** 0.5
