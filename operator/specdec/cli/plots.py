"""The picture of a server's rollouts: what was served when, how well each revision was accepted, what was decided."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specdec.cli.picture import Happened, Picture
from specdec.rollout.clock import seconds, text
from specdec.rollout.quarantine import PROMOTED, REJECTED
from specdec.rollout.revisions import version
from specdec.rollout.world import RevisionRecord

COLOURS = {PROMOTED: "tab:green", REJECTED: "tab:red"}
MARKS = {
    "CandidateServing": ("^", "tab:blue"),
    "Promoted": ("o", "tab:green"),
    "RolledBack": ("v", "tab:red"),
    "Refused": ("x", "tab:red"),
    "Superseded": (".", "tab:grey"),
    "DraftingOff": ("s", "tab:orange"),
    "RequestHandled": ("D", "tab:purple"),
}
"""Events that the picture shows."""


@dataclass(frozen=True)
class Story:
    """What of a picture can be drawn."""

    judged: tuple[RevisionRecord, ...]
    """Revisions with an accept length beside their outcome."""
    events: tuple[Happened, ...]
    """Events that the picture marks, oldest first."""

    @property
    def empty(self) -> bool:
        """Whether there is nothing to draw."""
        return not self.judged and not self.events


def story(picture: Picture) -> Story:
    """Collect what can be drawn."""
    judged = tuple(record for record in picture.records if record.accept_length)
    marked = tuple(
        event for event in picture.events if event.reason in MARKS and seconds(event.at) is not None
    )
    return Story(judged, marked)


def draw(picture: Picture, path: Path) -> None:
    """Write the picture as PNG."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    found = story(picture)
    figure, axes = plt.subplots(3, 1, figsize=(11, 8), height_ratios=[3, 2, 2])
    _lengths(axes[0], picture, found)
    _positions(axes[1], picture)
    _times(axes[2], found)
    for axis in axes:
        axis.grid(alpha=0.3)
        axis.spines[["top", "right"]].set_visible(False)
    figure.suptitle(f"Rollouts of {picture.named}", fontsize=11)
    figure.tight_layout()
    figure.savefig(path, dpi=130, format="png")
    plt.close(figure)


def _lengths(axis: Any, picture: Picture, found: Story) -> None:
    """Accept length of each judged revision against the floor."""
    from specdec.acceptance.judge import Floor

    steps = picture.server.spec.num_steps
    for place, record in enumerate(found.judged):
        colour = COLOURS.get(record.outcome, "tab:grey")
        length = float(record.accept_length)
        axis.bar(place, length - 1, bottom=1, color=colour, width=0.6)
        words = f"{record.accept_length}\n{record.requests} requests\n{record.reason or record.outcome}"
        axis.text(place, length + 0.05, words, ha="center", va="bottom", fontsize=7.5)
    floor = Floor.of(picture.server.spec.acceptance, steps).length
    if floor is not None:
        axis.axhline(floor, color="tab:red", linestyle="--", linewidth=1)
    axis.set(ylabel="accept length at the verdict", ylim=(1, steps + 2), title="")
    axis.set_xticks(
        range(len(found.judged)), [version(item) or item.name for item in found.judged], fontsize=8
    )


def _positions(axis: Any, picture: Picture) -> None:
    """Acceptance by position of what serves now."""
    shown = picture.server.status.acceptance
    shares = [float(share) for share in shown.per_position] if shown else []
    axis.bar(range(1, len(shares) + 1), shares, color="tab:blue", width=0.6)
    record = picture.record(shown.revision) if shown else None
    name = version(record) if record else "the serving drafter"
    axis.set(ylabel="right drafts", xlabel=f"position ({name}, now)", ylim=(0, 1))
    axis.set_xticks(range(1, len(shares) + 1))


def _times(axis: Any, found: Story) -> None:
    """What was decided when."""
    if not found.events:
        axis.text(
            0.5, 0.5, "no events are kept (Kubernetes forgets them after an hour)", ha="center", fontsize=8
        )
        axis.set_axis_off()
        return
    begin = seconds(found.events[0].at) or 0.0
    reasons = [reason for reason in MARKS if any(event.reason == reason for event in found.events)]
    for event in found.events:
        marker, colour = MARKS[event.reason]
        axis.plot((seconds(event.at) or begin) - begin, reasons.index(event.reason), marker, color=colour)
    axis.set_yticks(range(len(reasons)), reasons, fontsize=8)
    axis.set(xlabel=f"seconds since {text(begin)}", ylim=(-0.5, len(reasons) - 0.5))
