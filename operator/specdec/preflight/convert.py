"""Writing a repaired drafter into a new folder: streaming, in bounded memory, whole or not at all."""

from __future__ import annotations

import json
import os
import shutil
import struct
import tempfile
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from specdec.preflight.header import Entry
from specdec.preflight.index import INDEX
from specdec.preflight.loading import ABSOLUTE_TO_OFFSETS
from specdec.preflight.overlay import canonical
from specdec.preflight.reading import CONFIG
from specdec.preflight.repair import Mended
from specdec.preflight.source import Source
from specdec.preflight.tokens import CODES, read_whole

CHUNK = 4 << 20


class ConvertRefusedError(Exception):
    """Nothing was written."""


@dataclass(frozen=True)
class Kept:
    """One tensor under the name that it is written with."""

    name: str
    entry: Entry
    transform: str


def convert(source: Source, mended: Mended, destination: Path) -> list[Path]:
    """Write config and weights as they were mended; returns the files.

    Raises
    ------
    ConvertRefusedError
        The destination exists, or the drafter could not be read.
    """
    drafter = mended.case.drafter
    if drafter is None:
        raise ConvertRefusedError("the drafter could not be read: see the findings of preflight")
    if destination.exists() or destination.is_symlink():
        raise ConvertRefusedError(f"{destination} exists: name a new folder, nothing is overwritten")
    destination.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=f".{destination.name}.", dir=destination.parent))
    try:
        names = _write(source, mended, draft)
        draft.chmod(0o755)
        # A folder that someone made meanwhile is only replaced if it is empty.
        draft.rename(destination)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise
    _settle(destination.parent)
    return [destination / name for name in names]


def _write(source: Source, mended: Mended, draft: Path) -> list[str]:
    files: dict[str, list[Kept]] = {}
    for kept in _kept(mended):
        files.setdefault(kept.entry.file, []).append(kept)
    for file, tensors in files.items():
        _write_file(source, tensors, draft / file)
    drafter = mended.case.drafter
    _write_bytes(draft / CONFIG, canonical(dict(drafter.config) if drafter else {}))
    if len(files) > 1:
        placed = {kept.name: file for file, tensors in files.items() for kept in tensors}
        total = sum(kept.entry.end - kept.entry.start for tensors in files.values() for kept in tensors)
        index = {"metadata": {"total_size": total}, "weight_map": placed}
        _write_bytes(draft / INDEX, json.dumps(index, indent=1, sort_keys=True).encode())
    return sorted(path.name for path in draft.iterdir())


def _kept(mended: Mended) -> Iterator[Kept]:
    """Tensors of the repaired drafter, whose names are already the new ones."""
    drafter = mended.case.drafter
    for name, entry in (drafter.entries if drafter else {}).items():
        yield Kept(name, entry, mended.overlay.transforms.get(name, ""))


def _write_file(source: Source, tensors: list[Kept], path: Path) -> None:
    ordered = sorted(tensors, key=lambda kept: kept.entry.start)
    header, place = {}, 0
    for kept in ordered:
        end = place + kept.entry.end - kept.entry.start
        header[kept.name] = {
            "dtype": kept.entry.dtype, "shape": list(kept.entry.shape), "data_offsets": [place, end]
        }  # fmt: skip
        place = end
    raw = json.dumps({"__metadata__": {"format": "pt"}} | header, separators=(",", ":")).encode()
    raw += b" " * (-len(raw) % 8)
    with path.open("xb") as file:
        file.write(struct.pack("<Q", len(raw)) + raw)
        for kept in ordered:
            _copy(source, kept, file)
        file.flush()
        os.fsync(file.fileno())
    path.chmod(0o644)


def _copy(source: Source, kept: Kept, file: BinaryIO) -> None:
    entry = kept.entry
    if kept.transform == ABSOLUTE_TO_OFFSETS:
        ids = array(CODES[entry.dtype], read_whole(source, entry))
        file.write(array(ids.typecode, (target - index for index, target in enumerate(ids))).tobytes())
        return
    for start in range(entry.start, entry.end, CHUNK):
        count = min(CHUNK, entry.end - start)
        piece = source.read(entry.file, start, count)
        if len(piece) < count:
            raise ConvertRefusedError(
                f"{entry.file} ended early while it was copied: it changed under its path"
            )
        file.write(piece)


def _write_bytes(path: Path, content: bytes) -> None:
    with path.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    path.chmod(0o644)


def _settle(folder: Path) -> None:
    """Wait until a rename is on the disk."""
    directory = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
