"""A vision tower that tells red from blue, as small as SGLang's MoonViT takes one.

The idea. A patch becomes how red and how blue it is, in two channels of an otherwise empty state. Attention and MLP
add nothing, and a layer norm makes one large value of the greater channel. The projector writes that as the code of
the token RED or BLUE, where the text has the embedding of a token. So a target with this tower goes on after a
picture as after a text whose last token is the colour of the picture's lower right corner.
"""

from __future__ import annotations

import numpy as np
from tests.support.models.codes import BF16, WIDTH, Array, ones, zeros

PATCH = 14
STATE = 32
"""Width of the tower; two heads of 16 are the least that its rotary positions take."""
MERGED = 4 * STATE
"""Four patches become one token."""
INNER = 64

VISION_CONFIG = {
    "patch_size": PATCH,
    "init_pos_emb_height": 4,
    "init_pos_emb_width": 4,
    "init_pos_emb_time": 2,
    "num_attention_heads": 2,
    "num_hidden_layers": 1,
    "hidden_size": STATE,
    "intermediate_size": INNER,
    "mm_hidden_size": STATE,
    "text_hidden_size": WIDTH,
    "vt_hidden_size": STATE,
    "vt_intermediate_size": INNER,
    "vt_num_attention_heads": 2,
    "vt_num_hidden_layers": 1,
    "projector_ln_eps": 1e-5,
}

RED, BLUE = 40, 60
"""Tokens that a picture's lower right corner stands for."""


def tower() -> dict[str, Array]:
    """Weights of tower and projector, by the names of a Kimi-K2.5 checkpoint."""
    block = "vision_tower.encoder.blocks.0"
    return {
        **_patches("vision_tower.patch_embed"),
        **_norm(f"{block}.norm0"),
        **_norm(f"{block}.norm1"),
        **_linear(f"{block}.wqkv", zeros(3 * STATE, STATE)),
        **_linear(f"{block}.wo", zeros(STATE, STATE)),
        **_linear(f"{block}.mlp.fc0", zeros(INNER, STATE)),
        **_linear(f"{block}.mlp.fc1", zeros(STATE, INNER)),
        **_norm("vision_tower.encoder.final_layernorm"),
        **_norm("mm_projector.pre_norm"),
        **_linear("mm_projector.proj.0", np.eye(MERGED).astype(BF16)),
        **_linear("mm_projector.proj.2", _words()),
    }


def _patches(prefix: str) -> dict[str, Array]:
    """Mean of the red and of the blue of a patch, from 0 on: the processor's pixels go from -1 to 1."""
    weight = np.zeros((STATE, 3, PATCH, PATCH))
    for channel, colour in enumerate((0, 2)):
        weight[channel, colour] = 1 / PATCH**2
    bias = np.zeros(STATE)
    bias[:2] = 1
    named = {
        "proj.weight": weight.astype(BF16),
        "proj.bias": bias.astype(BF16),
        "pos_emb.weight": zeros(4, 4, STATE),
    }
    return {f"{prefix}.{name}": tensor for name, tensor in named.items()}


def _words() -> Array:
    """Turn four merged patches into a one-hot code of height 1."""
    # A layer norm makes sqrt(STATE - 1) of the one channel that is not 0.
    weight = np.zeros((WIDTH, MERGED))
    for channel, token in enumerate((RED, BLUE)):
        weight[token, channel::STATE] = 1 / (4 * (STATE - 1) ** 0.5)
    return weight.astype(BF16)


def _linear(prefix: str, weight: Array) -> dict[str, Array]:
    return {f"{prefix}.weight": weight, f"{prefix}.bias": zeros(weight.shape[0])}


def _norm(prefix: str) -> dict[str, Array]:
    return {f"{prefix}.weight": ones(STATE), f"{prefix}.bias": zeros(STATE)}
