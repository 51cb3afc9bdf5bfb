"""Why SGLang's process ended: its last lines, its exit and the plugin's report, against known signatures."""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from specdec.engine.loopback import StartReport


class Blame(StrEnum):
    """What the next start should do without."""

    DRAFTER = "drafter"
    GRAPHS = "graphs"
    SURROUNDINGS = "surroundings"
    """Nothing of the revision: a port, a network, the node's memory. Try the same again."""
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Failure:
    """One ended start."""

    reason: str
    message: str
    blame: Blame


@dataclass(frozen=True)
class Signature:
    """A line that tells the reason, and what to do about it."""

    pattern: re.Pattern[str]
    reason: str
    blame: Blame
    advice: str


def _signature(pattern: str, reason: str, blame: Blame, advice: str) -> Signature:
    return Signature(re.compile(pattern), reason, blame, advice)


SIGNATURES = (
    _signature(r"error: (?:unrecognized arguments|argument .*)", "ArgumentRefused", Blame.SURROUNDINGS,
               "this SGLang does not know the argument: change engine.args or the image"),
    _signature(r"Capture .*(?:graph|GRAPH) failed: .*", "GraphCaptureFailed", Blame.GRAPHS,
               "the next start captures less"),
    _signature(r"captured \d+ (?:of|aux).*", "CaptureLayersMismatch", Blame.DRAFTER,
               "the target can't give the layers that the drafter's config names: correct its layer ids"),
    _signature(r".*(?:CUDA out of memory|OutOfMemoryError|CUDA error: out of memory|Not enough memory\.).*",
               "OutOfMemory", Blame.SURROUNDINGS,
               "lower --mem-fraction-static or the context length, or take larger GPUs"),
    _signature(r".*(?:address already in use|Address already in use|[Pp]ort \d+ is (?:already )?in use).*", "PortInUse",
               Blame.SURROUNDINGS, "another process holds the port: the next start tries again"),
    _signature(r".*(?:NCCL.*(?:[Tt]imeout|timed out)|Watchdog caught collective operation timeout).*", "NcclTimeout",
               Blame.SURROUNDINGS, "the GPUs of this pod do not reach each other: check the node"),
    _signature(r".*(?:[Ee]rror while creating shared memory segment|No space left on device.*/dev/shm).*", "SharedMemory",
               Blame.SURROUNDINGS, "shared memory is too small for tensor parallel: raise engine.sharedMemory"),
    _signature(r".*(?:EAGLE is not supported in decode attention backend|backend can only be used with (?:non-)?MLA"
               r" models).*", "AttentionBackendUnsupported", Blame.DRAFTER,
               "give the drafter its own backend with --speculative-draft-attention-backend"),
    _signature(r".*context_length \(\d+\) is greater than the derived context_length.*", "DraftContextTooShort", Blame.DRAFTER,
               "the drafter was trained for a shorter context than the target is served with"),
    _signature(r".*PermissionError: .*", "NotReadable", Blame.UNKNOWN,
               "make the file readable for the pod's fsGroup"),
    _signature(r".*(?:FileNotFoundError|No such file or directory|Can't load the configuration of).*", "FileMissing",
               Blame.UNKNOWN, "check the claim and the path"),
    _signature(r".*(?:CUDA error: no kernel image|no CUDA-capable device|CUDA driver version is insufficient).*",
               "GpuUnusable", Blame.SURROUNDINGS, "the image doesn't fit the node's GPU or driver"),
    _signature(r".*watchdog timeout .*soft=False.*", "WatchdogTimeout", Blame.UNKNOWN,
               "one batch took longer than SGLang's watchdog allows"),
)  # fmt: skip
"""In order: the first signature that any of the last lines bears. Graph capture stands before memory: it names both."""

REPORT_BLAME = {
    "TensorsNotConsumed": Blame.DRAFTER,
    "ParametersNotFed": Blame.DRAFTER,
    "ShapeMismatch": Blame.DRAFTER,
    "NotFinite": Blame.DRAFTER,
    "ConfigDiffers": Blame.DRAFTER,
    "DraftingStatesMissing": Blame.DRAFTER,
    "NotBesideDrafter": Blame.DRAFTER,
}
"""Refusals of the plugin that a start without the drafter does not meet."""


def diagnose(tail: Sequence[str], code: int, report: StartReport | None) -> Failure:
    """Say why a process ended with this exit code."""
    if report is not None and report.reason:
        return Failure(report.reason, report.message, REPORT_BLAME.get(report.reason, Blame.SURROUNDINGS))
    for known in SIGNATURES:
        for line in tail:
            if found := known.pattern.search(line):
                return Failure(known.reason, _sentence(found.group(), known.advice), known.blame)
    if code == -signal.SIGKILL:
        return Failure(
            "Killed",
            "SGLang was killed by signal 9, expected it to run: most often the pod's memory limit; see the events",
            Blame.SURROUNDINGS,
        )
    last = next((line for line in reversed(tail) if _telling(line)), "no output")
    how = f"signal {-code}" if code < 0 else f"exit code {code}"
    return Failure(
        "EngineExited",
        _sentence(f"SGLang ended with {how} after: {last}", "see the container's log"),
        Blame.UNKNOWN,
    )


def _telling(line: str) -> bool:
    return bool(re.search(r"\b\w*(?:Error|Exception)\b", line))


def _sentence(found: str, advice: str) -> str:
    return f"{found.strip()[:200]}; {advice}"
