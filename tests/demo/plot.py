"""The picture of the demo: accept length and speed over time, with the marks of each rollout."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
from tests.demo.figures import Chapter, Record, Result, speed

mpl.use("Agg")
from matplotlib import pyplot as plt

BUCKET = 4.0
"""Seconds per point."""
CHARACTER = 1 / 140
"""Width of a label's character, as a share of the picture's time."""
ROW = 0.19
"""Height of a row of labels, as a share of the upper plot."""
COLOURS = {"Promoted": "tab:green", "Rejected": "tab:red"}


def buckets(requests: list[Record], begin: float) -> tuple[list[float], list[float], list[float]]:
    """Group requests by their end: times, accept lengths, tokens per second of a stream; the last group was cut off."""
    groups: dict[int, list[Record]] = {}
    whole = int((max(request["end"] for request in requests) - begin) / BUCKET)
    for request in requests:
        if not request["error"] and request["calls"]:
            groups.setdefault(int((request["end"] - begin) / BUCKET), []).append(request)
    times, lengths, speeds = [], [], []
    for number, group in sorted(groups.items()):
        if number == whole:
            continue
        times.append((number + 0.5) * BUCKET)
        lengths.append(1 + sum(r["drafts"] for r in group) / sum(r["calls"] for r in group))
        speeds.append(sum(speed(r) for r in group) / len(group))
    return times, lengths, speeds


def label(chapter: Chapter) -> str:
    """Name a rollout and its end in one to three short lines."""
    lines = [f"{chapter.version} ({chapter.drafter})", chapter.outcome, chapter.reason]
    return "\n".join(line for line in lines if line)


def rows(chapters: list[Chapter], width: float) -> list[int]:
    """Place labels side by side, and in a row further up where the one before takes the room."""
    ends, placed = list[float](), list[int]()
    for chapter in chapters:
        free = [row for row, end in enumerate(ends) if end < chapter.applied]
        row = min(free, default=len(ends))
        ends[row : row + 1] = [chapter.applied + width * max(map(len, label(chapter).splitlines()))]
        placed.append(row)
    return placed


def mark(axes: list[plt.Axes], chapter: Chapter, begin: float, row: int) -> None:
    """Shade the time from the apply to the end of a rollout, and the time in which the candidate served."""
    colour = COLOURS.get(chapter.outcome, "tab:grey")
    served_until = chapter.back or chapter.done
    for axis in axes:
        axis.axvline(chapter.applied - begin, color="grey", linewidth=0.8, linestyle=":")
        if chapter.swapped:
            axis.axvspan(chapter.swapped - begin, served_until - begin, color=colour, alpha=0.15, linewidth=0)
    place = {"xy": (chapter.applied - begin, 1.02 + ROW * row), "xycoords": ("data", "axes fraction")}
    axes[0].annotate(label(chapter), **place, fontsize=7.5, va="bottom", color=colour, annotation_clip=False)


def draw(result: Result, requests: list[Record], path: Path) -> None:
    """Write the picture."""
    begin = min(r["start"] for r in requests)
    times, lengths, speeds = buckets(requests, begin)
    figure, (upper, lower) = plt.subplots(2, 1, sharex=True, figsize=(11, 6.9), height_ratios=[3, 2])
    upper.plot(times, lengths, marker=".", color="tab:blue")
    upper.axhline(2.2, color="tab:red", linewidth=1, linestyle="--")
    upper.text(times[0], 2.22, "the user's floor (2.2)", fontsize=7.5, color="tab:red", va="bottom")
    upper.set(ylabel="accept length", ylim=(0.9, 4.1))
    lower.plot(times, speeds, marker=".", color="tab:purple")
    lower.set(ylabel="tok/s of a request", xlabel="seconds", ylim=(0, None))
    width = CHARACTER * (max(times) - min(times))
    for chapter, row in zip(result.chapters, rows(result.chapters, width), strict=True):
        mark([upper, lower], chapter, begin, row)
    figure.suptitle("Drafters rolled onto one running engine, judged, and taken back", y=0.995, fontsize=11)
    for axis in (upper, lower):
        axis.grid(alpha=0.3)
        axis.spines[["top", "right"]].set_visible(False)
    figure.tight_layout(rect=(0, 0, 1, 0.98))
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)
    plt.close(figure)
