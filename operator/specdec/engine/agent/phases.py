"""What SGLang's log lines say of a start's progress.

A mark repeats no phase that has passed: only a *new* mark counts as progress, so a watchdog that logs the
same line for an hour does not keep a stuck start alive.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from specdec.engine.protocol import Phase


@dataclass(frozen=True)
class Mark:
    """One sign of progress."""

    phase: Phase
    detail: str


PATTERNS = (
    (Phase.LOADING_WEIGHTS, re.compile(r"Load weight (?:begin|end)\..*")),
    (Phase.LOADING_WEIGHTS, re.compile(r"\bshards:\s+\d+% Completed \| \d+/\d+")),
    (Phase.LOADING_WEIGHTS, re.compile(r"KV Cache is allocated\..*")),
    (Phase.LOADING_WEIGHTS, re.compile(r"Memory pool end\..*")),
    (Phase.CAPTURING_GRAPHS, re.compile(r"Capture .*\b(?:cuda|CUDA|CPU|NPU|XPU) graph (?:begin|end)\..*")),
    (Phase.CAPTURING_GRAPHS, re.compile(r"Capturing batches \(.*?\).*\d+/\d+")),
    (Phase.CAPTURING_GRAPHS, re.compile(r"Built adaptive runtime state steps=\d+")),
    (Phase.WARMING_UP, re.compile(r"Uvicorn running on .*")),
    (Phase.WARMING_UP, re.compile(r"The server is fired up and ready to roll!")),
)
"""First match wins; the matched text is the mark's detail (counts in it make a new mark)."""

# Kernels that are compiled at the first use show a bar of their own in any phase.
BAR = re.compile(r"(?P<what>[A-Za-z][\w .,()-]*):\s+\d+%\|.*?\d+/\d+")
ANSI = re.compile(r"\x1b\[[0-9;]*m")


def read_line(line: str, phase: Phase) -> Mark | None:
    """Read one line, seen during `phase`; None if it says nothing of progress."""
    text = ANSI.sub("", line)
    for marked, pattern in PATTERNS:
        if found := pattern.search(text):
            return Mark(marked, found.group().strip())
    if found := BAR.search(text):
        return Mark(phase, found.group().strip())
    return None
