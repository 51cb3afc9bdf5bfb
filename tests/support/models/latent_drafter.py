"""An MLA drafter of a chosen quality (Eagle3DeepseekV2ForCausalLM), whose attention does the work.

Each head finds the newest token's own key among all, by the latent code that stands for it, and its value
moves the state on from the token before. Which latent slot stands for which token is a permutation of its own
(`slots`), known to `kv_a_proj` and `kv_b_proj` only: keys and values read with another drafter's `kv_b_proj`
find nothing, and no draft is right. So the accept length tells whether a swap renewed what SGLang derives of it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from tests.support.models.codes import (
    BF16,
    COMMON,
    FIRST_TEXT,
    HEADS,
    SIGMA,
    TAU,
    WIDTH,
    Array,
    matrix,
    ones,
    power,
    zeros,
)
from tests.support.models.drafter import DRAFT_IDS, DrafterShape, head
from tests.support.models.folder import write
from tests.support.models.target import KIMI_LATENT, TEXT_CONFIG, Latent

OWN = WIDTH // HEADS
"""Tokens that each head looks after."""
MOVE = 2
"""Weight of the newest token against the state before: it wins also where the text has left the cycle."""


def latent_drafter(
    folder: Path, shape: DrafterShape | None = None, *, slots: int = 0, latent: Latent = KIMI_LATENT
) -> Path:
    """Write a drafter's folder; `slots` picks the permutation of its latent codes."""
    shape = shape or DrafterShape()
    return write(folder, _config(latent), _weights(shape, slots, latent))


def _weights(shape: DrafterShape, slots: int, latent: Latent) -> dict[str, Array]:
    slot = np.random.default_rng(slots).permutation(latent.kv_rank)[:WIDTH]
    back = [matrix(power(TAU, depth)).T / len(shape.depths) for depth in shape.depths]
    norms = ("input_layernorm", "hidden_norm", "post_attention_layernorm")
    return (
        _attention("midlayer.self_attn", slot, latent)
        | {f"midlayer.{name}.weight": ones(WIDTH) for name in norms}
        | {f"midlayer.mlp.{name}_proj.weight": zeros(WIDTH, WIDTH) for name in ("gate", "up", "down")}
        | {"fc.weight": np.concatenate(back, axis=1).astype(BF16), "norm.weight": ones(WIDTH)}
        | head(shape)
    )


def _attention(inner: str, slot: Any, latent: Latent) -> dict[str, Array]:
    tokens = np.arange(WIDTH)
    place, of_head = tokens % OWN, tokens // OWN
    # Inputs are the newest token's embedding and the state before it; only the first is read.
    q_a = np.zeros((latent.q_rank, 2 * WIDTH))
    q_a[tokens, tokens] = 1
    q_b = np.zeros((HEADS, latent.nope + latent.rope, latent.q_rank))
    q_b[of_head, place, tokens] = 1
    kv_a = np.zeros((latent.kv_rank + latent.rope, 2 * WIDTH))
    kv_a[slot, tokens] = 1
    kv_b = np.zeros((HEADS, latent.nope + latent.value, latent.kv_rank))
    kv_b[of_head, place, slot] = 1
    # A latent code has one element of sqrt(kv_rank) after its norm.
    kv_b[of_head, latent.nope + place, slot] = MOVE * latent.kv_rank**-0.5
    o = np.zeros((WIDTH, HEADS, latent.value))
    o[tokens, of_head, place] = 1
    text = tokens[FIRST_TEXT:]
    o[text, of_head[SIGMA[text]], place[SIGMA[text]]] -= 1
    matrices = {
        "q_a_proj": q_a, "q_b_proj": q_b.reshape(-1, latent.q_rank), "kv_a_proj_with_mqa": kv_a,
        "kv_b_proj": kv_b.reshape(-1, latent.kv_rank), "o_proj": o.reshape(WIDTH, -1),
    }  # fmt: skip
    return {f"{inner}.{name}.weight": weight.astype(BF16) for name, weight in matrices.items()} | {
        f"{inner}.q_a_layernorm.weight": ones(latent.q_rank),
        f"{inner}.kv_a_layernorm.weight": ones(latent.kv_rank),
    }


def _config(latent: Latent) -> dict[str, Any]:
    return {
        "architectures": ["Eagle3DeepseekV2ForCausalLM"],
        "model_type": "kimi_k2",
        "num_hidden_layers": 1,
        "draft_vocab_size": len(DRAFT_IDS),
        "rope_scaling": TEXT_CONFIG["rope_scaling"],
        "first_k_dense_replace": 1,
        **latent.config(),
        **COMMON,
    }
