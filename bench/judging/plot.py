"""The picture of the judge's benchmark: how many were rolled back by when, at each rate."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import matplotlib as mpl

mpl.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

from bench.judging import rules
from bench.judging.runs import HALF_HOUR, Tried

if TYPE_CHECKING:
    from bench.judge import AtRate


def draw(tried: Sequence[AtRate], path: Path) -> None:
    """Draw the share that was rolled back over time: a bad candidate above, subtle and equal ones below."""
    figure, axes = plt.subplots(2, len(tried), figsize=(12, 6), sharex=True, sharey=True)
    for column, at in enumerate(tried):
        above, below = axes[0][column], axes[1][column]
        above.set_title(f"{at.rate:g} requests/s on each engine")
        _curve(above, at.bad.ours, len(at.bad.ours), "ours", "C0-")
        for setting, label, style in (
            (at.alike, "Flagger, hindsight, as strict", "C1-"),
            (at.any, "Flagger, hindsight, any", "C2-"),
        ):
            _curve(above, at.bad.flagger.get(setting, []), len(at.bad.ours), label, style)
        _curve(above, _documented(at.bad), len(at.bad.ours), "Flagger, documented", "C1:")
        _curve(above, at.bad.argo, len(at.bad.ours), "Argo, documented", "C3:")
        kinds = [
            *((f"{share:g} of active", found) for share, found in at.subtle.items()),
            ("equal", at.equal),
        ]
        for number, (name, found) in enumerate(kinds):
            _curve(below, found.ours, len(found.ours), f"{name}: ours", f"C{number}-")
            _curve(below, _documented(found), len(found.ours), f"{name}: Flagger", f"C{number}:")
        below.set_xlabel("seconds since the swap")
    axes[0][0].set_ylabel("rolled back: 2.0 for 3.03")
    axes[1][0].set_ylabel("rolled back: subtle, equal")
    axes[0][0].legend(fontsize=7, loc="upper left")
    axes[1][0].legend(fontsize=7, loc="upper left")
    figure.tight_layout()
    figure.savefig(path, dpi=80)
    plt.close(figure)


def _documented(tried: Tried) -> list[float]:
    return tried.flagger.get(rules.FLAGGER_DOCUMENTED, [])


def _curve(axes: Axes, times: Sequence[float | None], of: int, label: str, style: str) -> None:
    found = sorted(time for time in times if time is not None)
    shares = [(place + 1) / of for place in range(len(found))]
    last = shares[-1] if shares else 0.0
    axes.step([1, *found, HALF_HOUR], [0.0, *shares, last], style, where="post", label=label)
    axes.set_xscale("log")
    axes.set_ylim(-0.03, 1.05)
