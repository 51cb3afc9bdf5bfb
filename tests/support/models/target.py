"""The target: a KimiK25ForConditionalGeneration with MLA and MoE layers that speaks SIGMA's cycle."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from tests.support.models.codes import (
    BF16,
    COMMON,
    HEADS,
    LAYERS,
    SIGMA,
    TAU,
    WIDTH,
    Array,
    identity,
    matrix,
    mlp,
    ones,
    power,
    zeros,
)
from tests.support.models.folder import write
from tests.support.models.vision import VISION_CONFIG

EXPERTS = 4


@dataclass(frozen=True)
class Latent:
    """Sizes of latent attention (MLA); the defaults are as small as SGLang's CPU engine takes them."""

    kv_rank: int = 32
    q_rank: int = 32
    rope: int = 16
    nope: int = 16
    value: int = 16

    def config(self) -> dict[str, Any]:
        """Keys of config.json."""
        return {
            "kv_lora_rank": self.kv_rank,
            "q_lora_rank": self.q_rank,
            "qk_rope_head_dim": self.rope,
            "qk_nope_head_dim": self.nope,
            "v_head_dim": self.value,
        }


SMALL = Latent()
KIMI_LATENT = Latent(kv_rank=512, q_rank=WIDTH, rope=64, nope=128, value=128)
"""Kimi-K2.5's sizes but for q_rank: GPU kernels for MLA are made for these."""

PROCESSOR = Path(__file__).with_name("processing_tiny_kimi.py")

TEXT_CONFIG: dict[str, Any] = {
    "model_type": "kimi_k2",
    "architectures": ["DeepseekV3ForCausalLM"],
    "num_hidden_layers": LAYERS,
    "moe_intermediate_size": WIDTH,
    "n_shared_experts": 1,
    "n_routed_experts": EXPERTS,
    "num_experts_per_tok": 2,
    "routed_scaling_factor": 1.0,
    "first_k_dense_replace": 1,
    "moe_layer_freq": 1,
    "n_group": 1,
    "topk_group": 1,
    "topk_method": "noaux_tc",
    "scoring_func": "sigmoid",
    "norm_topk_prob": True,
    "num_nextn_predict_layers": 0,
    **SMALL.config(),
    "rope_scaling": {
        "type": "yarn",
        "factor": 4.0,
        "beta_fast": 32.0,
        "beta_slow": 1.0,
        "mscale": 1.0,
        "mscale_all_dim": 1.0,
        "original_max_position_embeddings": 512,
    },
    **COMMON,
}


def kimi(
    folder: Path, latent: Latent = SMALL, *, gain: float = 1.0, tower: Mapping[str, Array] | None = None
) -> Path:
    """Write the target's folder; at a gain below 1 its head is less sure of the next token.

    Without a vision tower's weights it can't see, though its config has a tower: its chat template has no place
    for a picture.
    """
    processor = {"AutoProcessor": f"{PROCESSOR.stem}.TinyKimiProcessor"}
    config = {
        "architectures": ["KimiK25ForConditionalGeneration"],
        "model_type": "kimi_k25",
        "text_config": TEXT_CONFIG | latent.config(),
        "vision_config": VISION_CONFIG,
        "pad_token_id": 0,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "media_placeholder_token_id": WIDTH - 1,
        "torch_dtype": "bfloat16",
        "tie_word_embeddings": False,
        "auto_map": processor,
    }
    write(folder, config, _weights(latent, gain) | dict(tower or {}), sees=tower is not None)
    shutil.copyfile(PROCESSOR, folder / PROCESSOR.name)
    text = '{"processor_class": "TinyKimiProcessor", "auto_map": {"AutoProcessor": "%s"}}'
    (folder / "processor_config.json").write_text(text % processor["AutoProcessor"])
    return folder


def _head(gain: float) -> Array:
    """Row SIGMA[t] looks at the code that the last layer leaves of t."""
    head = np.zeros((WIDTH, WIDTH), np.float32)
    head[SIGMA, power(TAU, LAYERS)] = gain
    return head.astype(BF16)


def _weights(latent: Latent, gain: float) -> dict[str, Array]:
    weights = {
        "language_model.model.embed_tokens.weight": identity(),
        "language_model.model.norm.weight": ones(WIDTH),
        "language_model.lm_head.weight": _head(gain),
    }
    for layer in range(LAYERS):
        prefix = f"language_model.model.layers.{layer}"
        weights |= _attention(prefix, latent)
        weights |= mlp(f"{prefix}.mlp", matrix(TAU)) if layer == 0 else _experts(f"{prefix}.mlp")
    return weights


def _attention(prefix: str, latent: Latent) -> dict[str, Array]:
    """Latent attention that adds nothing."""
    inner = f"{prefix}.self_attn"
    return {
        f"{inner}.q_a_proj.weight": zeros(latent.q_rank, WIDTH),
        f"{inner}.q_a_layernorm.weight": ones(latent.q_rank),
        f"{inner}.q_b_proj.weight": zeros(HEADS * (latent.nope + latent.rope), latent.q_rank),
        f"{inner}.kv_a_proj_with_mqa.weight": zeros(latent.kv_rank + latent.rope, WIDTH),
        f"{inner}.kv_a_layernorm.weight": ones(latent.kv_rank),
        f"{inner}.kv_b_proj.weight": zeros(HEADS * (latent.nope + latent.value), latent.kv_rank),
        f"{inner}.o_proj.weight": zeros(WIDTH, HEADS * latent.value),
        f"{prefix}.input_layernorm.weight": ones(WIDTH),
        f"{prefix}.post_attention_layernorm.weight": ones(WIDTH),
    }


def _experts(prefix: str) -> dict[str, Array]:
    """Routed experts that add nothing; the shared expert does the layer's work."""
    weights: dict[str, Array] = {
        f"{prefix}.gate.weight": zeros(EXPERTS, WIDTH),
        f"{prefix}.gate.e_score_correction_bias": np.zeros(EXPERTS, np.float32),
    }
    for expert in range(EXPERTS):
        for name in ("gate", "up", "down"):
            weights[f"{prefix}.experts.{expert}.{name}_proj.weight"] = zeros(WIDTH, WIDTH)
    return weights | mlp(f"{prefix}.shared_experts", matrix(TAU))
