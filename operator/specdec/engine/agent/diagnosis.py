"""Why SGLang's process ended: the plugin's report, the kernel's count of OOM kills, its last lines, its exit."""

from __future__ import annotations

import re
import signal
from typing import TYPE_CHECKING

from specdec.engine.agent.failures import Blame, Failure, blamed
from specdec.engine.agent.signatures import SIGNATURES
from specdec.engine.protocol import NOT_THERE

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from specdec.engine.loopback import StartReport

MOST_LINES = 6
LINE_CHARACTERS = 160
FOUND_CHARACTERS = 100
"""Of the line in a sentence: cause and advice must fit behind it."""

REPORT_BLAME = {
    "TensorsNotConsumed": Blame.DRAFTER,
    "ParametersNotFed": Blame.DRAFTER,
    "LoadFailed": Blame.DRAFTER,
    "ShapeMismatch": Blame.DRAFTER,
    "NotFinite": Blame.DRAFTER,
    "ConfigDiffers": Blame.DRAFTER,
    "DraftingStatesMissing": Blame.DRAFTER,
    "NotBesideDrafter": Blame.DRAFTER,
    **{reason: blamed(reason) for reason in ("NotReadable", *NOT_THERE)},
}
"""Refusals of the plugin that a start without the drafter does not meet."""

ANSI = re.compile(r"\x1b\[[0-9;]*m")
TELLING = re.compile(
    r"\b\w*(?:Error|Exception)\b|\b[Ee]rror:|\b(?:[Ff]ailed|FATAL|[Kk]illed|[Cc]rashed|died|sigquit|refuses)\b|NCCL WARN|\btimeout\b"
)
NOISE = re.compile(r"^\s|^$|^#\d+ |^frame #|server_args=|freeze_gc|^Traceback \(most recent call last\)")
"""Frames of a traceback and their source lines are indented; the line that names the error is not. Each start of SGLang
fails to call /freeze_gc, a route that is closed here: that is no error."""
BY_ITSELF = re.compile(r"hit an exception|Received sigquit from a child|SubprocessWatchdog")
"""SGLang ends its own process tree by SIGKILL after these: the signal is no sign of the kernel then."""
CHILD_KILLED = re.compile(r"(?:exit code:? -9\b|terminated with -9\b)")


def diagnose(
    tail: Sequence[str], code: int, report: StartReport | None, *, oom_killed: bool = False
) -> Failure:
    """Say why a process ended.

    Parameters
    ----------
    code
        Its exit code, negative for a signal.
    oom_killed
        Whether the kernel killed a process of this pod for its memory limit since the start.
    """
    ended = f"signal {-code}" if code < 0 else f"exit code {code}"
    if report is not None and report.reason:
        blame = REPORT_BLAME.get(report.reason, Blame.SURROUNDINGS)
        return Failure(report.reason, report.message, blame, ended, telling(tail))
    if oom_killed:
        sentence = "the kernel killed a process of SGLang at the pod's memory limit: raise engine.resources.limits.memory"
        return Failure("HostOutOfMemory", sentence, Blame.SURROUNDINGS, ended, telling(tail))
    # A traceback also shows the source of whoever raised: with the words of errors that did not happen.
    said = [bare for line in tail if not NOISE.search(bare := _bare(line))]
    for known in SIGNATURES:
        for line in said:
            if found := known.pattern.search(line):
                sentence = f"{_cut(found.group().strip(), FOUND_CHARACTERS)}; {known.cause}: {known.advice}"
                return Failure(known.reason, sentence, known.blame, ended, telling(tail, line))
    return _unknown(tail, code, ended)


def _unknown(tail: Sequence[str], code: int, ended: str) -> Failure:
    lines = telling(tail)
    by_itself = any(BY_ITSELF.search(line) for line in tail)
    killed = any(CHILD_KILLED.search(line) for line in tail)
    if killed or (code == -signal.SIGKILL and not by_itself):
        sentence = (
            "SGLang was killed by signal 9, expected it to run: most often the node's or the pod's memory; "
            "see the pod's events"
        )
        return Failure("Killed", sentence, Blame.SURROUNDINGS, ended, lines)
    last = next(
        (line for line in reversed(tail) if TELLING.search(line) and not NOISE.search(line)), "no output"
    )
    sentence = (
        f"SGLang ended with {ended} after: {_cut(_bare(last), FOUND_CHARACTERS)}; see the container's log"
    )
    return Failure("EngineExited", sentence, Blame.UNKNOWN, ended, lines)


def telling(tail: Iterable[str], found: str = "") -> tuple[str, ...]:
    """Pick the last lines that tell something, `found` among them; each at most 160 characters."""
    lines = [bare for line in tail if not NOISE.search(bare := _bare(line))]
    errors = [line for line in lines if TELLING.search(line)]
    # The first of equal lines: eight ranks say the same within a second.
    chosen = list(dict.fromkeys(errors or lines))[-MOST_LINES:]
    first = _bare(found)
    if first and first not in chosen:
        chosen = [first, *chosen[-MOST_LINES + 1 :]]
    return tuple(_cut(line, LINE_CHARACTERS) for line in chosen)


def _bare(line: str) -> str:
    return ANSI.sub("", line).rstrip()


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
