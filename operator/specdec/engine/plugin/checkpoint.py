"""A staged drafter's files: its config and its tensors, read one at a time.

Read, not mapped: a mapped file that is cut short, or whose volume fails, ends the engine by SIGBUS; a read only
fails. The header is the preflight's, so nothing is believed that it would refuse.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from specdec.engine.plugin.refusal import RefusedError
from specdec.preflight.checkpoint import CheckpointRefusedError
from specdec.preflight.checkpoint import read_config as read_checked
from specdec.preflight.header import DRAFTER, Entry, read_header
from specdec.preflight.index import INDEX, read_index
from specdec.preflight.source import LocalFolder, UnreadableError, unreadable

TYPES = {
    "BOOL": "bool", "U8": "uint8", "I8": "int8", "I16": "int16", "I32": "int32", "I64": "int64", "F16": "float16",
    "BF16": "bfloat16", "F32": "float32", "F64": "float64", "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2",
}  # fmt: skip
"""torch's names of the types that a drafter may have."""


def read_config(folder: Path) -> dict[str, Any]:
    """Read config.json.

    Raises
    ------
    RefusedError
        It is missing or no JSON object.
    """
    try:
        return read_checked(folder)
    except CheckpointRefusedError as error:
        raise RefusedError(error.reason, str(error)) from error


def weight_files(folder: Path) -> list[Path]:
    """Files that hold the tensors: those that the index names, else all safetensors files.

    Raises
    ------
    RefusedError
        There is none, or the index is none or leads elsewhere.
    """
    names = _indexed(folder) or sorted(path.name for path in folder.glob("*.safetensors"))
    if not names:
        raise RefusedError("NoWeights", f"{folder} holds no safetensors file, expected at least one")
    outside = [name for name in names if Path(name).name != name]
    if outside:
        raise RefusedError(
            "LinkOutsideFolder",
            f"{INDEX} leads to {outside[0]}, expected files of its own folder: export it anew",
        )
    return [folder / name for name in names]


def _indexed(folder: Path) -> list[str]:
    if not (folder / INDEX).exists():
        return []
    source, name, size = _place(folder / INDEX)
    try:
        return sorted(read_index(source, name, size).counts)
    except UnreadableError as error:
        raise RefusedError(error.code, str(error)) from error


def tensors(folder: Path) -> Iterator[tuple[str, Any]]:
    """Yield all tensors on the CPU, with their names.

    Raises
    ------
    RefusedError
        A file can't be read to its end.
    """
    for path in weight_files(folder):
        source, name, size = _place(path)
        try:
            for entry in read_header(source, name, size, DRAFTER).entries:
                yield entry.name, _tensor(source.folder / name, entry)
        except UnreadableError as error:
            raise RefusedError(error.code, str(error)) from error


def _place(path: Path) -> tuple[LocalFolder, str, int]:
    """Where a file of an overlay really lies: the agent has made sure that this is the drafter's folder."""
    real = Path(os.path.realpath(path))
    try:
        return LocalFolder(real.parent), real.name, real.stat().st_size
    except OSError as error:
        raise lost(path, error) from error


def lost(path: Path, error: OSError) -> RefusedError:
    """Say that a file could not be read: its volume's doing, or nothing is there."""
    why = unreadable(path, error)
    return RefusedError(why.code, str(why))


def _tensor(path: Path, entry: Entry) -> Any:
    import torch

    kind = getattr(torch, TYPES.get(entry.dtype, ""), None)
    if kind is None:
        raise RefusedError(
            "DtypeDiffers", f"tensor {entry.name} has type {entry.dtype}, expected one of {', '.join(TYPES)}"
        )
    content = torch.empty(entry.end - entry.start, dtype=torch.uint8)
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            file.seek(entry.start)
            found = file.readinto(memoryview(content.numpy()))
    except OSError as error:
        raise unreadable(path, error) from error
    if found < len(content):
        raise UnreadableError(
            "FileTruncated", f"{path} ends inside {entry.name}", "a whole file", "copy it again"
        )
    return content.view(kind).reshape(entry.shape)
