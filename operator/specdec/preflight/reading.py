"""Reading a model's folder without believing it: every fault becomes a finding, none a traceback.

Only config.json, the index, headers and a drafter's token map (two small integer tables) are read: no weight is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatch
from typing import Any

from specdec.preflight.finding import Finding, Severity, some
from specdec.preflight.header import DRAFTER, TARGET, Entry, Limits, read_header
from specdec.preflight.index import INDEX, Index, read_index
from specdec.preflight.json_object import read_json
from specdec.preflight.source import Source, UnreachableError, UnreadableError

CONFIG = "config.json"
CARD = "README.md"
CARD_BYTES = 16 << 10
CONFIG_BYTES = 1 << 20
FORMAT = "huggingface/safetensors, README.md (format)"
PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl")


@dataclass
class Reading:
    """What a folder says of a model."""

    source: Source
    config: dict[str, Any] | None = None
    entries: dict[str, Entry] = field(default_factory=dict)
    """The tensors that were asked for, by name."""
    metadata: dict[str, str] = field(default_factory=dict)
    card: str = ""
    """Beginning of its README."""
    files: dict[str, int] = field(default_factory=dict)
    tensors: int | None = None
    """How many all headers declare; None if none was read."""
    findings: list[Finding] = field(default_factory=list)

    def blame(self, error: UnreadableError, severity: Severity = Severity.ERROR) -> None:
        """Turn a refusal into a finding."""
        severity = Severity.UNKNOWN if isinstance(error, UnreachableError) else severity
        self.findings.append(Finding(error.code, severity, error.found, error.expected, error.hint, FORMAT))

    def refuse(self, code: str, found: str, expected: str, hint: str) -> None:
        """Add a finding of this module's own."""
        self.blame(UnreadableError(code, found, expected, hint))


def read_model(
    source: Source, limits: Limits, keep: Callable[[Entry], bool] = lambda _entry: True
) -> Reading:
    """Read a folder; of its tensors keep those that the caller wants."""
    reading = Reading(source)
    if not _outlined(reading):
        return reading
    reading.card = _read_card(reading)
    present = shards(reading.files)
    indexed = _read_index(reading, present)
    if not present and indexed is None:
        reading.blame(no_weights(source, reading.files))
    for shard in present:
        _read_shard(reading, shard, limits, keep, indexed)
    missing = sorted(set(indexed.counts if indexed else ()) - set(present))
    if missing:
        reading.refuse(
            "ShardMissing", f"{INDEX} lists {some(missing)}, which is not there", "all listed files",
            "copy the folder again",
        )  # fmt: skip
    return reading


def read_outline(source: Source) -> Reading:
    """Read a folder's config and the sizes of its files, but no header."""
    reading = Reading(source)
    _outlined(reading)
    return reading


def _outlined(reading: Reading) -> bool:
    """Fill in files and config; says whether the folder could be listed at all."""
    try:
        reading.files = reading.source.sizes()
    except UnreadableError as error:
        reading.blame(error)
        return False
    try:
        reading.config = read_config(reading.source, reading.files)
    except UnreadableError as error:
        reading.blame(error)
    return True


def read_drafter(source: Source) -> Reading:
    """Read a drafter's folder with all its tensors."""
    reading = read_model(source, DRAFTER)
    if reading.config and reading.config.get("auto_map"):
        reading.refuse(
            "RemoteCode", "config.json has auto_map, which runs code from the folder", "no code in a drafter",
            "remove the key: SGLang brings the drafter's class",
        )  # fmt: skip
    return reading


def read_target(source: Source) -> Reading:
    """Read a target's folder; its tensors are checked and counted, not kept."""
    return read_model(source, TARGET, lambda _entry: False)


def shards(files: Iterable[str]) -> list[str]:
    """Names of the files that hold weights."""
    return [name for name in files if name.endswith(".safetensors")]


def read_config(source: Source, files: Mapping[str, int]) -> dict[str, Any]:
    """Read config.json as one JSON object.

    Raises
    ------
    UnreadableError
        It is missing, unreadable or no such object.
    """
    if CONFIG not in files:
        raise UnreadableError(
            "ConfigMissing", f"{source.label} has no {CONFIG}", "a model's folder", "check the path"
        )
    return read_json(source, CONFIG, files[CONFIG], CONFIG_BYTES, "Config")


def _read_card(reading: Reading) -> str:
    if CARD not in reading.files:
        return ""
    try:
        return reading.source.read(CARD, 0, CARD_BYTES).decode(errors="replace")
    except UnreadableError:
        return ""


def _read_index(reading: Reading, present: list[str]) -> Index | None:
    if INDEX not in reading.files:
        return None
    try:
        index = read_index(reading.source, INDEX, reading.files[INDEX])
    except UnreadableError as error:
        reading.blame(error)
        return None
    outside = [file for file in index.counts if "/" in file or "\\" in file]
    if outside:
        reading.refuse(
            "LinkOutsideFolder", f"{INDEX} leads to {some(outside)}", "files of this folder", "export it anew"
        )
    stray = [shard for shard in present if shard not in index.counts]
    if stray:
        unlisted = UnreadableError(
            "ShardNotIndexed", f"{some(stray)} is not in {INDEX}", "every file listed", "remove or list it"
        )
        reading.blame(unlisted, Severity.WARNING)
    return index


def _read_shard(
    reading: Reading,
    shard: str,
    limits: Limits,
    keep: Callable[[Entry], bool],
    indexed: Index | None,
) -> None:
    try:
        header = read_header(reading.source, shard, reading.files[shard], limits)
    except UnreadableError as error:
        reading.blame(error)
        return
    reading.metadata.update(header.metadata)
    reading.tensors = (reading.tensors or 0) + len(header.entries)
    if indexed is not None and shard in indexed.counts:
        wrong = indexed.disputed(shard, [entry.name for entry in header.entries])
        if wrong:
            reading.refuse(
                "IndexWrong", f"{INDEX} and {shard} disagree on {some(wrong)}", "the same names in both",
                "export the index anew",
            )  # fmt: skip
    for entry in header.entries:
        if not keep(entry):
            continue
        if entry.name in reading.entries:
            other = reading.entries[entry.name].file
            reading.refuse(
                "TensorRepeated", f"{some([entry.name])} is in {other} and in {shard}", "every name once",
                "remove the file that is left from another export",
            )  # fmt: skip
        reading.entries[entry.name] = entry


def no_weights(source: Source, files: Iterable[str]) -> UnreadableError:
    """Say what a folder without safetensors files has instead."""
    pickles = [name for name in files if any(fnmatch(name, pattern) for pattern in PICKLES)]
    if pickles:
        return UnreadableError(
            "PickleOnly", f"{some(pickles)} and no *.safetensors", "safetensors",
            "convert it: pickles run code when they are read, so none is ever opened",
        )  # fmt: skip
    return UnreadableError(
        "NoWeights", f"{source.label} has no *.safetensors", "at least one", "check the path"
    )
