"""Drafters that must be refused: each a good one with a single fault."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
from tests.support.models.codes import Array
from tests.support.models.drafter import DrafterShape, drafter, weights
from tests.support.models.folder import save_weights

Tensors = dict[str, Array]


def wrong_shape(folder: Path) -> None:
    """One norm is one element short."""
    _change(folder, lambda tensors: tensors | {"norm.weight": tensors["norm.weight"][:-1]})


def not_finite(folder: Path) -> None:
    """One element of `fc` is NaN."""

    def change(tensors: Tensors) -> Tensors:
        spoiled = tensors["fc.weight"].copy()
        spoiled[3, 5] = np.nan
        return tensors | {"fc.weight": spoiled}

    _change(folder, change)


def missing_tensor(folder: Path) -> None:
    """The key projection is absent: its part of the fused parameter would stay as it was."""
    _change(folder, lambda tensors: _without(tensors, "midlayer.self_attn.k_proj.weight"))


def no_token_map(folder: Path) -> None:
    """d2t is absent, so the serving drafter's map would stay."""
    _change(folder, lambda tensors: _without(tensors, "d2t"))


def other_dtype(folder: Path) -> None:
    """`fc` is stored with more precision than the engine would keep."""
    _change(folder, lambda tensors: tensors | {"fc.weight": tensors["fc.weight"].astype(np.float32)})


def absolute_token_map(folder: Path) -> None:
    """d2t holds target ids instead of offsets: it points past the vocabulary."""
    drafter(folder, DrafterShape(absolute_token_map=True))


def truncated(folder: Path) -> None:
    """The file ends in the middle of a tensor, as after a broken copy."""
    drafter(folder)
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1000])


def other_config(folder: Path) -> None:
    """Same tensors, but rotary embeddings of another base."""
    drafter(folder, rope_theta=50000.0)


def no_config(folder: Path) -> None:
    """config.json is not JSON."""
    drafter(folder)
    (folder / "config.json").write_text(json.dumps({})[:-1])


BUILDERS: dict[str, Callable[[Path], None]] = {
    builder.__name__: builder
    for builder in (
        wrong_shape,
        not_finite,
        missing_tensor,
        no_token_map,
        other_dtype,
        absolute_token_map,
        truncated,
        other_config,
        no_config,
    )
}


def _change(folder: Path, change: Callable[[Tensors], Tensors]) -> None:
    drafter(folder)
    save_weights(folder / "model.safetensors", change(weights(DrafterShape())))


def _without(tensors: Tensors, name: str) -> Tensors:
    return {key: tensor for key, tensor in tensors.items() if key != name}
