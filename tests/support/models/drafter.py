"""Drafters: LlamaForCausalLMEagle3 checkpoints of a chosen quality, and ways to make them wrong."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tests.support.models.codes import (
    BF16,
    COMMON,
    DEFAULT_CAPTURE,
    FIRST_TEXT,
    HEADS,
    SIGMA,
    TAU,
    WIDTH,
    Array,
    matrix,
    mlp,
    mlp_after_norm,
    ones,
    power,
    zeros,
)
from tests.support.models.folder import write

DRAFT_IDS = np.arange(FIRST_TEXT, WIDTH)
"""The draft vocabulary: all text tokens."""
HEAD_SIZE = WIDTH // HEADS


@dataclass(frozen=True)
class DrafterShape:
    """How a drafter is built; the defaults are a good one."""

    quality: float = 1.0
    """Share of tokens that it foretells."""
    prefix: str = "midlayer"
    """Name of its one layer in the checkpoint; SGLang knows `midlayer` and `layers.0`."""
    layers: tuple[int, ...] | None = None
    """Capture layers that its config names; None leaves the key out."""
    depths: tuple[int, ...] = DEFAULT_CAPTURE
    """How many target layers ran before each code that `fc` was computed for."""
    absolute_token_map: bool = False
    """Write d2t as target ids instead of offsets."""
    first_draft_id: int = FIRST_TEXT
    """Where the draft vocabulary begins (it wraps around): another value is another token map of the same length."""
    norm_before_residual: bool = False
    """Trained with the residual taken after the first norm: useless where it is taken before."""
    own_embedding: bool = False
    """Hold an `embed_tokens.weight` of its own, full of sevens: SGLang uses the target's instead."""


def drafter(folder: Path, shape: DrafterShape | None = None, **config: Any) -> Path:
    """Write a drafter's folder; further keys go into its config.json."""
    shape = shape or DrafterShape()
    return write(folder, _config(shape) | config, weights(shape))


def wrong_ids(quality: float) -> NDArray[np.int64]:
    """Text tokens that a drafter of this quality never foretells."""
    order = np.random.default_rng(1).permutation(len(DRAFT_IDS))
    return DRAFT_IDS[order[: round((1 - quality) * len(DRAFT_IDS))]]


def weights(shape: DrafterShape) -> dict[str, Array]:
    """Tensors of a drafter, under their checkpoint names."""
    inner = shape.prefix
    attention = {f"{inner}.self_attn.{n}_proj.weight": zeros(WIDTH, 2 * WIDTH) for n in "qkv"}
    norms = ("input_layernorm", "hidden_norm", "post_attention_layernorm")
    back = [matrix(power(TAU, depth)).T / len(shape.depths) for depth in shape.depths]
    step = mlp_after_norm if shape.norm_before_residual else mlp
    return (
        attention
        | {f"{inner}.self_attn.o_proj.weight": zeros(WIDTH, WIDTH)}
        | {f"{inner}.{name}.weight": ones(WIDTH) for name in norms}
        | ({f"{inner}.hidden_norm.weight": -ones(WIDTH)} if shape.norm_before_residual else {})
        | step(f"{inner}.mlp", matrix(SIGMA))
        | {"fc.weight": np.concatenate(back, axis=1).astype(BF16), "norm.weight": ones(WIDTH)}
        | head(shape)
        | ({"embed_tokens.weight": 7 * ones(WIDTH, WIDTH)} if shape.own_embedding else {})
    )


def head(shape: DrafterShape) -> dict[str, Array]:
    """Head and token map of a drafter: they alone make its quality."""
    ids = _draft_ids(shape)
    return {"lm_head.weight": _head(shape.quality, ids)} | _token_map(ids, absolute=shape.absolute_token_map)


def _draft_ids(shape: DrafterShape) -> NDArray[np.int64]:
    return np.roll(DRAFT_IDS, FIRST_TEXT - shape.first_draft_id)


def _head(quality: float, draft_ids: NDArray[np.int64]) -> Array:
    """After the MLP the state is the newest known token t: row SIGMA[t] must win, or, if wrong, another."""
    before = np.zeros(WIDTH, np.int64)
    before[SIGMA[FIRST_TEXT:]] = DRAFT_IDS
    looked_at = before[DRAFT_IDS]
    wrong = wrong_ids(quality) - FIRST_TEXT
    looked_at[wrong] = looked_at[np.roll(wrong, 1)]
    head = np.zeros((len(DRAFT_IDS), WIDTH), np.float32)
    head[np.arange(len(DRAFT_IDS)), looked_at[draft_ids - FIRST_TEXT]] = 1
    return head.astype(BF16)


def _token_map(draft_ids: NDArray[np.int64], *, absolute: bool) -> dict[str, Array]:
    known = np.zeros(WIDTH, bool)
    known[draft_ids] = True
    offsets = draft_ids if absolute else draft_ids - np.arange(len(draft_ids))
    return {"d2t": offsets, "t2d": known}


def _config(shape: DrafterShape) -> dict[str, Any]:
    config = {
        "architectures": ["LlamaForCausalLMEagle3"],
        "model_type": "llama",
        "num_hidden_layers": 1,
        "head_dim": HEAD_SIZE,
        "mlp_bias": False,
        "draft_vocab_size": len(DRAFT_IDS),
        **COMMON,
    }
    if shape.norm_before_residual:
        config["norm_before_residual"] = True
    if shape.layers is not None:
        config["eagle_config"] = {
            "eagle_aux_hidden_state_layer_ids": list(shape.layers),
            "use_aux_hidden_state": True,
        }
    return config
