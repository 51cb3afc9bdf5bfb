"""The one-hot codes: two permutations, and matrices that apply them to a residual stream."""

from __future__ import annotations

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

WIDTH = 256
"""Hidden size and vocabulary."""
FIRST_TEXT = 3
"""Token ids below are special: unknown, begin, end."""
LAYERS = 8
HEADS = 4
DEFAULT_CAPTURE = (2, LAYERS // 2, LAYERS - 3)
"""Layers whose input SGLang captures when the drafter's config names none."""

Array = NDArray[np.generic]
BF16 = ml_dtypes.bfloat16


def _cycle(random: np.random.Generator) -> NDArray[np.int64]:
    order = random.permutation(np.arange(FIRST_TEXT, WIDTH))
    following = np.full(WIDTH, order[0])
    following[order] = np.roll(order, -1)
    return following


_random = np.random.default_rng(7)
SIGMA = _cycle(_random)
"""SIGMA[t] is the token after t."""
TAU = _random.permutation(WIDTH)
"""TAU[c] is the code that a target layer makes of code c."""


def power(permutation: NDArray[np.int64], times: int) -> NDArray[np.int64]:
    """Apply a permutation so many times."""
    result = np.arange(WIDTH)
    for _ in range(times):
        result = permutation[result]
    return result


def matrix(permutation: NDArray[np.int64]) -> NDArray[np.float32]:
    """M with M @ onehot(t) == onehot(permutation[t])."""
    result = np.zeros((WIDTH, WIDTH), np.float32)
    result[permutation, np.arange(WIDTH)] = 1
    return result


def zeros(*shape: int) -> Array:
    """Weights that contribute nothing."""
    return np.zeros(shape, BF16)


def ones(*shape: int) -> Array:
    """Weights of a norm."""
    return np.ones(shape, BF16)


def identity() -> Array:
    """Embedding whose rows are the codes."""
    return np.eye(WIDTH).astype(BF16)


def mlp(prefix: str, step: NDArray[np.float32]) -> dict[str, Array]:
    """SwiGLU weights that turn a one-hot residual into `step @ onehot`."""
    # RMSNorm makes sqrt(WIDTH) * onehot of a one-hot vector; gate and up are the identity on it.
    height = WIDTH**0.5
    gained = height / (1 + np.exp(-height)) * height
    down = (step - np.eye(WIDTH)) / gained
    return {
        f"{prefix}.gate_proj.weight": identity(),
        f"{prefix}.up_proj.weight": identity(),
        f"{prefix}.down_proj.weight": down.astype(BF16),
    }


def mlp_after_norm(prefix: str, step: NDArray[np.float32]) -> dict[str, Array]:
    """SwiGLU weights that turn a one-hot residual, normed by weights of -1, into `step @ onehot`.

    The state comes in as -sqrt(WIDTH) * onehot and only then passes the gate; one that was not normed before
    comes in positive, passes nothing, and stays the token that it was.
    """
    height = WIDTH**0.5
    gained = height / (1 + np.exp(-height)) * height
    down = height * (step + np.eye(WIDTH)) / gained
    return {
        f"{prefix}.gate_proj.weight": (-np.eye(WIDTH)).astype(BF16),
        f"{prefix}.up_proj.weight": (-np.eye(WIDTH)).astype(BF16),
        f"{prefix}.down_proj.weight": down.astype(BF16),
    }


COMMON = {
    "hidden_size": WIDTH,
    "intermediate_size": WIDTH,
    "num_attention_heads": HEADS,
    "num_key_value_heads": HEADS,
    "vocab_size": WIDTH,
    "max_position_embeddings": 2048,
    "rms_norm_eps": 1e-6,
    "rope_theta": 10000.0,
    "hidden_act": "silu",
    "torch_dtype": "bfloat16",
    "bos_token_id": 1,
    "eos_token_id": 2,
    "tie_word_embeddings": False,
    "attention_bias": False,
}
"""config.json keys that target and drafter share."""
