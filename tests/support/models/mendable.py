"""Drafters whose faults need no change of a weight: each is a sound one, saved as some trainer saves it.

Those of :data:`SWAPPED` were trained on other layers than SGLang's default, and are, once mended, equal in config:
one engine can serve them one after the other. The others need an engine of their own.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from tests.support.models.codes import (
    BF16,
    FIRST_TEXT,
    LAYERS,
    SIGMA,
    TAU,
    WIDTH,
    Array,
    matrix,
    mlp,
    ones,
    power,
    zeros,
)
from tests.support.models.drafter import DrafterShape, drafter, weights
from tests.support.models.folder import save_weights

from specdec.api.drafter import Layers
from specdec.preflight.facts import LAYER_IDS, Convention

QUALITY = 0.7
TRAINED = (3, 5, 6)
"""Layers whose inputs they were trained on, which are the outputs of 2, 4 and 5."""
SHAPE = DrafterShape(quality=QUALITY, depths=TRAINED)
NUMBERED = DrafterShape(quality=QUALITY, depths=TRAINED, prefix="layers.0")
WINDOW = 32
"""Tokens that the attention of `windowed` was trained to see."""
POISON = 0
"""Token that spoils every later draft that sees it; no answer contains it."""
FAR = (FIRST_TEXT, POISON, *[FIRST_TEXT] * (2 * WINDOW))
"""Beginning of a prompt that leaves POISON behind the window; a drafter never sees a prompt's very first token."""
SHORT_CONTEXT = 256

Config = dict[str, Any]
Tensors = dict[str, Array]


@dataclass(frozen=True)
class Mendable:
    """One way to save a sound drafter."""

    build: Callable[[Path], object]
    repairs: frozenset[str]
    """Codes of what the preflight mends."""
    refused: str
    """Reason of the engine that is given it unmended."""
    layers: Layers | None = None
    """What a person has to say of its layers."""


def sound(folder: Path) -> None:
    """Write what all of SWAPPED are once they are mended."""
    _write(folder, weights(SHAPE))


def speculators_with_ids(folder: Path) -> None:
    """Nest the config, wrap the names, count layers by their inputs, and leave absolute ids in d2t."""
    _as_speculators(folder, "0.9.0", norm_before_residual=False, **{LAYER_IDS: list(TRAINED)})


def speculators_without_ids(folder: Path) -> None:
    """As before 0.5: the layers are the trainer's default, which only its version tells."""
    _as_speculators(folder, "0.3.0")


def ids_at_the_top_level(folder: Path) -> None:
    """Name the layers where SGLang sizes `fc` from and captures nothing."""
    _write(folder, weights(SHAPE), eagle_config=None, **{LAYER_IDS: list(TRAINED)})


def ids_of_outputs(folder: Path) -> None:
    """Count layers by their outputs, as nothing in the files says."""
    _write(folder, weights(SHAPE), eagle_config={LAYER_IDS: [layer - 1 for layer in TRAINED]})


def ids_unsaid(folder: Path) -> None:
    """Leave it to a person to know the layers: SGLang would capture its default."""
    _write(folder, weights(SHAPE), eagle_config=None)


def wrapped(folder: Path) -> None:
    """Two wrappers before every name."""
    _write(folder, _renamed(weights(SHAPE), "_orig_mod.draft_model."))


def layers_0(folder: Path) -> None:
    """The layer is called layers.0, as in most trainers, below a wrapper."""
    _write(folder, _renamed(weights(NUMBERED), "module."))


def absolute_token_map(folder: Path) -> None:
    """d2t holds target ids instead of offsets."""
    _write(folder, _absolute(weights(SHAPE)))


def copies_of_the_target(folder: Path) -> None:
    """The trainer saved the target's last norm and head along."""
    copies = {"verifier_norm.weight": ones(WIDTH), "verifier_lm_head.weight": zeros(WIDTH, WIDTH)}
    _write(folder, weights(SHAPE) | copies)


def other_class_name(folder: Path) -> None:
    """The class is called as vLLM calls it."""
    _write(folder, weights(SHAPE), architectures=["Eagle3LlamaForCausalLM"])


def vocabulary_undeclared(folder: Path) -> None:
    """The head's size is not in the config."""
    _write(folder, weights(SHAPE))
    _change(folder, lambda config: config.pop("draft_vocab_size"))


def null_width(folder: Path) -> None:
    """target_hidden_size is there and null, as speculators leaves it."""
    _write(folder, weights(SHAPE))
    _change(folder, lambda config: config.update(target_hidden_size=None))


SWAPPED: dict[str, Mendable] = {
    "speculators_with_ids": Mendable(
        speculators_with_ids,
        frozenset({"SpeculatorsNotConverted", "ParametersNotFed", "LayersDiffer", "TokenMapAbsolute"}),
        "ConfigDiffers",
    ),
    "speculators_without_ids": Mendable(
        speculators_without_ids,
        frozenset({"SpeculatorsNotConverted", "ParametersNotFed", "LayersDiffer", "TokenMapAbsolute"}),
        "ConfigDiffers",
    ),
    "ids_at_the_top_level": Mendable(ids_at_the_top_level, frozenset({"LayerIdsElsewhere"}), "ConfigDiffers"),
    "ids_of_outputs": Mendable(
        ids_of_outputs, frozenset({"LayersDiffer"}), "ConfigDiffers", Layers(convention=Convention.OUTPUT)
    ),
    "ids_unsaid": Mendable(
        ids_unsaid,
        frozenset({"LayersDiffer"}),
        "ConfigDiffers",
        Layers(ids=tuple(layer - 1 for layer in TRAINED), convention=Convention.OUTPUT),
    ),
    "wrapped": Mendable(wrapped, frozenset({"ParametersNotFed"}), "TensorsNotConsumed"),
    "layers_0": Mendable(layers_0, frozenset({"ParametersNotFed"}), "TensorsNotConsumed"),
    "absolute_token_map": Mendable(absolute_token_map, frozenset({"TokenMapAbsolute"}), "TokenMapOutOfRange"),
    "copies_of_the_target": Mendable(
        copies_of_the_target, frozenset({"TensorsDropped"}), "TensorsNotConsumed"
    ),
    "other_class_name": Mendable(other_class_name, frozenset({"ArchitectureMisnamed"}), "ConfigDiffers"),
    "vocabulary_undeclared": Mendable(
        vocabulary_undeclared, frozenset({"DraftVocabularyUndeclared"}), "ConfigDiffers"
    ),
}


DECLARED = {name: one.layers for name, one in SWAPPED.items() if one.layers}
"""Those that need a person's word."""


def normed(folder: Path) -> None:
    """Norms before `fc` without their flags, a window and a short context that the engine is not told of.

    Without its norms the state has the other sign, which nothing after it passes; the window hides POISON.
    """
    tensors = poisoned(DrafterShape(quality=QUALITY))
    tensors["fc.weight"] = -tensors["fc.weight"]
    tensors["input_norm.weight"] = (ones(3 * WIDTH) / 16).astype(BF16)
    tensors |= {f"fc_norm.{index}.weight": (-ones(WIDTH) / 16).astype(BF16) for index in range(3)}
    drafter(
        folder,
        max_position_embeddings=SHORT_CONTEXT,
        sliding_window=WINDOW,
        layer_types=["sliding_attention"],
    )
    save_weights(folder / "model.safetensors", tensors)


NORMED = frozenset({"NormFlagMissing", "DraftWindowMissing", "ContextTooShort"})
"""Codes of what is mended of `normed`."""


def poisoned(shape: DrafterShape) -> Tensors:
    """Attention that looks at all tokens alike, and drowns the state in one code if POISON is among them."""
    tensors = weights(shape)
    value, output = zeros(WIDTH, 2 * WIDTH), zeros(WIDTH, WIDTH)
    value[0, POISON] = 16
    output[FIRST_TEXT, 0] = 16
    name = f"{shape.prefix}.self_attn"
    return tensors | {f"{name}.v_proj.weight": value, f"{name}.o_proj.weight": output}


def headless(folder: Path) -> None:
    """A drafter that uses the target's head and whole vocabulary, which its config does not say."""
    _write_headless(folder)
    _change(folder, lambda config: config.pop("draft_vocab_size"))


def headless_with_a_copy(folder: Path) -> None:
    """The same, declared, with a copy of the head that it does not use."""
    _write_headless(folder, {"lm_head.weight": zeros(WIDTH, WIDTH)})


def _write_headless(folder: Path, more: Tensors | None = None) -> None:
    """Its state after the layer is the code that the target's last layer leaves of the newest token."""
    shape = DrafterShape()
    last = power(TAU, LAYERS)
    step = np.empty(WIDTH, np.int64)
    step[last] = last[SIGMA]
    fc = [matrix(power(TAU, LAYERS - depth)) / len(shape.depths) for depth in shape.depths]
    tensors = weights(shape) | mlp(f"{shape.prefix}.mlp", matrix(step))
    tensors["fc.weight"] = np.concatenate(fc, axis=1).astype(BF16)
    tensors = {
        name: tensor for name, tensor in tensors.items() if name not in {"lm_head.weight", "d2t", "t2d"}
    }
    drafter(folder, draft_vocab_size=None)
    save_weights(folder / "model.safetensors", tensors | (more or {}))


def _write(folder: Path, tensors: Tensors, **config: Any) -> None:
    drafter(folder, SHAPE, **({"eagle_config": {LAYER_IDS: list(TRAINED)}} | config))
    save_weights(folder / "model.safetensors", tensors)


def _change(folder: Path, change: Callable[[Config], object]) -> None:
    config = json.loads((folder / "config.json").read_text())
    change(config)
    (folder / "config.json").write_text(json.dumps(config))


def _as_speculators(folder: Path, version: str, **outer: Any) -> None:
    _write(folder, _renamed(_absolute(weights(NUMBERED)), "module."))
    flat = json.loads((folder / "config.json").read_text())
    del flat["eagle_config"]
    config = {
        "architectures": ["Eagle3Speculator"], "speculators_model_type": "eagle3", "speculators_version": version,
        "draft_vocab_size": flat.pop("draft_vocab_size"), "target_hidden_size": None, "transformer_layer_config": flat,
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config | outer))


def _renamed(tensors: Tensors, wrapper: str) -> Tensors:
    return {f"{wrapper}{name}": tensor for name, tensor in tensors.items()}


def _absolute(tensors: Tensors) -> Tensors:
    return tensors | {"d2t": tensors["d2t"] + np.arange(len(tensors["d2t"]))}
