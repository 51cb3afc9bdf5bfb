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


COUNT = r"(?P<done>\d+)/(?P<all>\d+)"
SHARDS = "loading weights: shard {done} of {all}"
BATCHES = "capturing graphs: batch size {done} of {all}"

PATTERNS = (
    (Phase.LOADING_WEIGHTS, re.compile(r"Load weight (?:begin|end)\..*"), ""),
    (Phase.LOADING_WEIGHTS, re.compile(rf"\bshards:\s+\d+% Completed \| {COUNT}"), SHARDS),
    (Phase.LOADING_WEIGHTS, re.compile(rf"Fastsafetensor loading:\s+\d+%\|.*?\| {COUNT}"), SHARDS),
    # Loaders that stream count tensors, not files.
    (Phase.LOADING_WEIGHTS, re.compile(rf"\bLoading [\w -]+:\s+\d+%(?: Completed)? ?\|.*?\b{COUNT}"),
     "loading weights: tensor {done} of {all}"),
    (Phase.LOADING_WEIGHTS, re.compile(r"KV Cache is allocated\..*"), ""),
    (Phase.LOADING_WEIGHTS, re.compile(r"Memory pool end\..*"), ""),
    (Phase.CAPTURING_GRAPHS, re.compile(r"Capture .*\b(?:cuda|CUDA|CPU|NPU|XPU) graph (?:begin|end)\..*"), ""),
    (Phase.CAPTURING_GRAPHS, re.compile(rf"Capturing batches \(.*?\).*?\b{COUNT}"), BATCHES),
    (Phase.CAPTURING_GRAPHS, re.compile(r"Built adaptive runtime state steps=\d+"), ""),
    (Phase.WARMING_UP, re.compile(r"Uvicorn running on .*"), ""),
    (Phase.WARMING_UP, re.compile(r"The server is fired up and ready to roll!"), ""),
)  # fmt: skip
"""First match wins. What the mark says: the matched text, or the sentence beside it (counts in it make a new mark)."""

# Kernels that are compiled at the first use show a bar of their own in any phase.
BAR = re.compile(r"(?P<what>[A-Za-z][\w .,()-]*):\s+\d+%\|.*?\d+/\d+")
ANSI = re.compile(r"\x1b\[[0-9;]*m")


def read_line(line: str, phase: Phase) -> Mark | None:
    """Read one line, seen during `phase`; None if it says nothing of progress."""
    text = ANSI.sub("", line)
    for marked, pattern, said in PATTERNS:
        if found := pattern.search(text):
            return Mark(marked, said.format(**found.groupdict()) if said else found.group().strip())
    if found := BAR.search(text):
        return Mark(phase, found.group().strip())
    return None
