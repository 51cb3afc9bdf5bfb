"""Reading a checkpoint's config.json and safetensors headers, distrusting every byte of them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

CONFIG = "config.json"
MAX_CONFIG_BYTES = 1 << 20
"""Real configs have a few KB; anything of this size is no config."""
MAX_HEADER_BYTES = 100_000_000
"""The safetensors format's own limit."""
PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl")


class CheckpointRefusedError(Exception):
    """A checkpoint can't be used; `reason` is CamelCase, the text one sentence."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True)
class Tensor:
    """One tensor as a safetensors header declares it."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    file: str


@dataclass(frozen=True)
class Checkpoint:
    """What a folder says of its weights without reading them."""

    folder: Path
    config: dict[str, Any]
    tensors: tuple[Tensor, ...]
    files: tuple[Path, ...]
    """The safetensors files, sorted by name."""


def read_checkpoint(folder: Path) -> Checkpoint:
    """Read a folder's config and the headers of all its safetensors files.

    Raises
    ------
    CheckpointRefusedError
        The folder, its config or a header is missing, unreadable or malformed.
    """
    files = weight_files(folder)
    config = read_config(folder)
    tensors = tuple(tensor for file in files for tensor in read_tensors(file))
    return Checkpoint(folder, config, tensors, files)


def read_config(folder: Path) -> dict[str, Any]:
    """Read config.json as one JSON object."""
    path = folder / CONFIG
    raw = _read(path, MAX_CONFIG_BYTES + 1)
    if len(raw) > MAX_CONFIG_BYTES:
        raise CheckpointRefusedError(
            "ConfigTooLarge",
            f"{path} is larger than {MAX_CONFIG_BYTES} bytes, a config has a few KB: point at the model's folder",
        )
    try:
        config = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise CheckpointRefusedError(
            "ConfigMalformed", f"{path} is not JSON ({error}), expected one object: copy the file again"
        ) from error
    if not isinstance(config, dict):
        raise CheckpointRefusedError(
            "ConfigMalformed",
            f"{path} holds a {type(config).__name__}, expected a JSON object: copy the file again",
        )
    return config


def weight_files(folder: Path) -> tuple[Path, ...]:
    """List the safetensors files of a folder, which must have at least one."""
    try:
        names = sorted(entry.name for entry in folder.iterdir())
    except OSError as error:
        raise _unreadable(folder, error) from error
    files = tuple(folder / name for name in names if name.endswith(".safetensors"))
    if files:
        return files
    pickled = [name for name in names if any((folder / name).match(pattern) for pattern in PICKLES)]
    if pickled:
        raise CheckpointRefusedError(
            "PickleOnly",
            f"{folder} holds {pickled[0]} but no *.safetensors; pickles run code when read: convert it to safetensors",
        )
    raise CheckpointRefusedError(
        "NoWeights", f"{folder} holds no *.safetensors, expected at least one: check the path"
    )


def read_header(path: Path) -> tuple[bytes, int]:
    """Read the raw header of a safetensors file and the file's size."""
    try:
        size = path.stat().st_size
    except OSError as error:
        raise _unreadable(path, error) from error
    length = int.from_bytes(_read(path, 8), "little")
    if size < 8 or length > min(MAX_HEADER_BYTES, size - 8):
        raise CheckpointRefusedError(
            "HeaderMalformed",
            f"{path} has {size} bytes and declares a header of {length}, expected a whole safetensors file: copy it again",
        )
    return _read(path, 8 + length)[8:], size


def read_tensors(path: Path) -> list[Tensor]:
    """Read the tensors that a safetensors file declares and check that their data fits into it."""
    raw, size = read_header(path)
    room = size - 8 - len(raw)
    try:
        header: dict[str, dict[str, Any]] = json.loads(raw)
        header.pop("__metadata__", None)
        found = [
            Tensor(name, str(entry["dtype"]), tuple(int(extent) for extent in entry["shape"]), path.name)
            for name, entry in header.items()
        ]
        end = max((int(entry["data_offsets"][1]) for entry in header.values()), default=0)
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError) as error:
        raise CheckpointRefusedError(
            "HeaderMalformed",
            f"{path} has a header that is no safetensors header ({error!r}): copy the file again",
        ) from error
    if end > room:
        raise CheckpointRefusedError(
            "FileTruncated",
            f"{path} holds {room} bytes of tensors, its header declares {end}: copy the file again",
        )
    return found


def _read(path: Path, count: int) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(count)
    except OSError as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: OSError) -> CheckpointRefusedError:
    if isinstance(error, FileNotFoundError):
        return CheckpointRefusedError("FileMissing", f"{path} does not exist: check the claim and the path")
    if isinstance(error, PermissionError):
        return CheckpointRefusedError(
            "NotReadable", f"{path} can't be read by this user: make it readable for the pod's fsGroup"
        )
    return CheckpointRefusedError("NotReadable", f"{path} can't be read ({error}): check the volume")
