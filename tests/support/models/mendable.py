"""Drafters whose faults need no change of a weight: each is a sound one, saved as some trainer saves it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from tests.support.models.codes import DEFAULT_CAPTURE
from tests.support.models.drafter import DrafterShape, drafter, weights
from tests.support.models.folder import save_weights


def as_speculators_saves_it(folder: Path, quality: float = 0.7) -> None:
    """Nest the config, wrap the names, and leave absolute ids in d2t."""
    drafter(folder)
    flat = json.loads((folder / "config.json").read_text())
    config = {
        "architectures": ["Eagle3Speculator"], "speculators_model_type": "eagle3", "speculators_version": "0.9.0",
        "draft_vocab_size": flat.pop("draft_vocab_size"), "target_hidden_size": None, "norm_before_residual": False,
        "eagle_aux_hidden_state_layer_ids": list(DEFAULT_CAPTURE), "transformer_layer_config": flat,
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))
    shape = DrafterShape(quality=quality, prefix="layers.0", absolute_token_map=True)
    _save_wrapped(folder, "module.", shape)


def wrapped(folder: Path, quality: float = 0.7) -> None:
    """Two wrappers before every name."""
    drafter(folder)
    _save_wrapped(folder, "_orig_mod.draft_model.", DrafterShape(quality=quality))


def layers_0(folder: Path, quality: float = 0.7) -> None:
    """The layer is called layers.0, as in most trainers, below a wrapper."""
    drafter(folder)
    _save_wrapped(folder, "module.", DrafterShape(quality=quality, prefix="layers.0"))


def absolute_token_map(folder: Path, quality: float = 0.7) -> None:
    """d2t holds target ids instead of offsets."""
    drafter(folder, DrafterShape(quality=quality, absolute_token_map=True))


BUILDERS: dict[str, Callable[[Path, float], None]] = {
    builder.__name__: builder for builder in (wrapped, layers_0, absolute_token_map)
}
"""Those that have the config of a sound one, so that they can be swapped in."""


def _save_wrapped(folder: Path, wrapper: str, shape: DrafterShape) -> None:
    tensors = {f"{wrapper}{name}": tensor for name, tensor in weights(shape).items()}
    save_weights(folder / "model.safetensors", tensors)
