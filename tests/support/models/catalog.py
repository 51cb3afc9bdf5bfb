"""The named models that tests, demo and benchmarks use."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from tests.support.models.drafter import DrafterShape, drafter, weights
from tests.support.models.folder import save_weights
from tests.support.models.target import kimi

_SHAPES = {
    "good": DrafterShape(),
    "q70": DrafterShape(quality=0.7),
    "q40": DrafterShape(quality=0.4),
    # Loads whole and is never right.
    "dead": DrafterShape(quality=0.0),
    # SGLang drops these names without a word.
    "renamed": DrafterShape(prefix="model.decoder.0"),
    # Takes its residual after its norm, speculators' default.
    "norm-first": DrafterShape(quality=0.7, norm_before_residual=True),
    # Captures the embedding's output, as speculators' ids may ask for.
    "embedding": DrafterShape(layers=(-1, 2, 5), depths=(0, 2, 5)),
}


def _layers_0(folder: Path) -> Path:
    """Write q70 with other names, so that it can be swapped in for it."""
    drafter(folder, _SHAPES["q70"])
    named = weights(DrafterShape(quality=0.7, prefix="layers.0"))
    save_weights(folder / "model.safetensors", {f"module.{name}": tensor for name, tensor in named.items()})
    return folder


_BUILDERS: dict[str, Callable[[Path], Path]] = {
    "kimi": kimi,
    **{name: lambda folder, shape=shape: drafter(folder, shape) for name, shape in _SHAPES.items()},
    # Sound, with the names that most trainers give.
    "layers-0": _layers_0,
}

NAMES = tuple(_BUILDERS)
"""kimi is the target, the others are its drafters."""


def make(root: Path, names: Iterable[str] = NAMES) -> dict[str, Path]:
    """Write the named models below a folder; returns where each lies."""
    root.mkdir(parents=True, exist_ok=True)
    return {name: _BUILDERS[name](root / name) for name in names}
