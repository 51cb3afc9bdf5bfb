"""A staged drafter's files: its config and its tensors, read one at a time."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from specdec.engine.plugin.refusal import RefusedError

INDEX = "model.safetensors.index.json"


def read_config(folder: Path) -> dict[str, Any]:
    """Read config.json.

    Raises
    ------
    RefusedError
        It is missing or no JSON object.
    """
    try:
        config = json.loads((folder / "config.json").read_text())
    except (OSError, ValueError) as error:
        raise RefusedError("Unreadable", f"{folder / 'config.json'}: {error}") from error
    if not isinstance(config, dict):
        raise RefusedError("Unreadable", f"{folder / 'config.json'} holds no JSON object")
    return config


def weight_files(folder: Path) -> list[Path]:
    """Files that hold the tensors: those that the index names, else all safetensors files."""
    index = folder / INDEX
    try:
        names = (
            sorted(set(json.loads(index.read_text())["weight_map"].values()))
            if index.exists()
            else sorted(path.name for path in folder.glob("*.safetensors"))
        )
    except (OSError, ValueError, KeyError, AttributeError) as error:
        raise RefusedError("Unreadable", f"{index}: {error}") from error
    if not names:
        raise RefusedError("Unreadable", f"{folder} holds no safetensors file")
    return [folder / name for name in names]


def tensors(folder: Path) -> Iterator[tuple[str, Any]]:
    """Yield all tensors on the CPU, with their names.

    Raises
    ------
    RefusedError
        A file can't be read to its end.
    """
    from safetensors import SafetensorError, safe_open

    for path in weight_files(folder):
        try:
            with safe_open(path, framework="pt", device="cpu") as file:
                for name in file.keys():  # noqa: SIM118 - not a dict
                    yield name, file.get_tensor(name)
        except (OSError, SafetensorError) as error:
            raise RefusedError("Unreadable", f"{path}: {error}") from error
