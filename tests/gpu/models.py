"""A target and drafters of Kimi-K2.5's widths with random weights: for timing, not for acceptance."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

HIDDEN, INNER, VOCABULARY, DRAFTED = 7168, 18432, 163840, 32000
HEADS, KV_HEADS, HEAD_SIZE = 56, 8, 128
LAYERS, TARGET_INNER = 24, 4096
BASE = {
    "hidden_size": HIDDEN, "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS, "head_dim": HEAD_SIZE,
    "vocab_size": VOCABULARY, "hidden_act": "silu", "rms_norm_eps": 1e-5, "max_position_embeddings": 4096,
    "rope_theta": 10000.0, "torch_dtype": "bfloat16", "tie_word_embeddings": False, "bos_token_id": 1,
    "eos_token_id": 2, "model_type": "llama",
}  # fmt: skip


class Maker:
    """Random tensors, made on the GPU: the host's would take minutes."""

    def __init__(self) -> None:
        import torch

        self._torch = torch
        self._source = torch.Generator(device="cuda").manual_seed(0)

    def random(self, *shape: int) -> Any:
        """Weights of a linear layer."""
        torch = self._torch
        made = torch.randn(*shape, generator=self._source, device="cuda", dtype=torch.bfloat16)
        return (made * 0.02).cpu()

    def release(self) -> None:
        """Give the GPU's memory back to the servers."""
        self._torch.cuda.empty_cache()

    def ones(self, size: int) -> Any:
        """Weights of a norm."""
        return self._torch.ones(size, dtype=self._torch.bfloat16)

    def layer(self, prefix: str, width: int, inner: int) -> dict[str, Any]:
        """One decoder layer whose attention reads so wide a state."""
        sizes = {"q": HEADS * HEAD_SIZE, "k": KV_HEADS * HEAD_SIZE, "v": KV_HEADS * HEAD_SIZE}
        return {
            **{f"{prefix}.self_attn.{name}_proj.weight": self.random(rows, width) for name, rows in sizes.items()},
            f"{prefix}.self_attn.o_proj.weight": self.random(HIDDEN, HEADS * HEAD_SIZE),
            f"{prefix}.mlp.gate_proj.weight": self.random(inner, HIDDEN),
            f"{prefix}.mlp.up_proj.weight": self.random(inner, HIDDEN),
            f"{prefix}.mlp.down_proj.weight": self.random(HIDDEN, inner),
            f"{prefix}.input_layernorm.weight": self.ones(HIDDEN),
            f"{prefix}.post_attention_layernorm.weight": self.ones(HIDDEN),
        }  # fmt: skip


def target(folder: Path, tokenizer: Path, maker: Maker) -> Path:
    """Write a dense target of 9.8 GB."""
    weights = {
        "model.embed_tokens.weight": maker.random(VOCABULARY, HIDDEN),
        "model.norm.weight": maker.ones(HIDDEN),
    }
    weights["lm_head.weight"] = maker.random(VOCABULARY, HIDDEN)
    for layer in range(LAYERS):
        weights |= maker.layer(f"model.layers.{layer}", HIDDEN, TARGET_INNER)
    own = {
        "architectures": ["LlamaForCausalLM"],
        "num_hidden_layers": LAYERS,
        "intermediate_size": TARGET_INNER,
    }
    _write(folder, BASE | own, weights)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(tokenizer / name, folder)
    return folder


def drafter(folder: Path, maker: Maker) -> Path:
    """Write a drafter of 1.9 GB; nothing that it says is ever right."""
    import torch

    weights = {
        **maker.layer("midlayer", 2 * HIDDEN, INNER),
        "midlayer.hidden_norm.weight": maker.ones(HIDDEN),
        "norm.weight": maker.ones(HIDDEN),
        "fc.weight": maker.random(HIDDEN, 3 * HIDDEN),
        "lm_head.weight": maker.random(DRAFTED, HIDDEN),
        "d2t": torch.zeros(DRAFTED, dtype=torch.int64),
        "t2d": torch.arange(VOCABULARY) < DRAFTED,
    }
    own = {
        "architectures": ["LlamaForCausalLMEagle3"], "num_hidden_layers": 1, "intermediate_size": INNER,
        "draft_vocab_size": DRAFTED, "target_hidden_size": HIDDEN,
        "eagle_config": {"eagle_aux_hidden_state_layer_ids": [2, 12, 21], "use_aux_hidden_state": True},
    }  # fmt: skip
    _write(folder, BASE | own, weights)
    return folder


def _write(folder: Path, config: dict[str, Any], weights: dict[str, Any]) -> None:
    from safetensors.torch import save_file

    folder.mkdir(parents=True)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps(config))
