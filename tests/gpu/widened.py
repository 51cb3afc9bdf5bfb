"""The tiny pair at Kimi-K2.5's own sizes, its experts in INT4 as in the published checkpoint: what is known
beforehand of the tiny one holds here too.

Every tensor is the tiny one's with zeros around it, so a state is the same code in the first of 7,168 places. A norm
over more places makes less of it; its weights make up for that. In the layers with experts every expert holds what
the tiny target's shared expert does, and the shared one nothing: whichever eight a token goes to, their weighted sum
is the code that was computed, if the engine unpacks and multiplies INT4 rightly.
"""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from safetensors.numpy import load_file
from tests.gpu.memory import LIKE_KIMI
from tests.gpu.models import DRAFTED, HEAD_SIZE, HEADS, HIDDEN, INNER, KV_HEADS, VOCABULARY
from tests.support.models import KIMI_LATENT, DrafterShape, kimi
from tests.support.models.codes import FIRST_TEXT, LAYERS, TAU, WIDTH, Array, matrix
from tests.support.models.drafter import drafter as tiny_drafter

EXPERTS, EXPERT_INNER, GROUP = 384, 2048, 32
DENSE = LAYERS - 2
"""Layers without experts; the published model has one such, and sixty with experts of 9.6 GB each."""
ROUTED_SCALING = 2.827
NORM = (WIDTH / HIDDEN) ** 0.5
INT4 = {
    "quant_method": "compressed-tensors",
    "format": "pack-quantized",
    "quantization_status": "compressed",
    "kv_cache_scheme": None,
    "ignore": ["lm_head", "re:.*self_attn.*", "re:.*shared_experts.*", r"re:.*mlp\.(gate|up|gate_up|down)_proj.*"],
    "config_groups": {
        "group_0": {
            "targets": ["Linear"],
            "input_activations": None,
            "output_activations": None,
            "weights": {
                "num_bits": 4, "type": "int", "group_size": GROUP, "strategy": "group", "symmetric": True,
                "dynamic": False, "observer": "minmax", "observer_kwargs": {}, "actorder": None,
                "block_structure": None,
            },
        }
    },
}  # fmt: skip
TARGET = {
    "num_hidden_layers": LAYERS, "first_k_dense_replace": DENSE, "intermediate_size": INNER,
    "n_routed_experts": EXPERTS, "moe_intermediate_size": EXPERT_INNER, "routed_scaling_factor": ROUTED_SCALING,
    "quantization_config": INT4,
}  # fmt: skip
LATENT = {
    "q_a_proj": (1536, HIDDEN), "q_a_layernorm": (1536,), "q_b_proj": (64 * 192, 1536),
    "kv_a_proj_with_mqa": (576, HIDDEN), "kv_a_layernorm": (512,), "kv_b_proj": (64 * 256, 512),
    "o_proj": (HIDDEN, 64 * 128),
}  # fmt: skip
MLP = {"gate_proj": (INNER, HIDDEN), "up_proj": (INNER, HIDDEN), "down_proj": (HIDDEN, INNER)}
SHARED = {
    "gate_proj": (EXPERT_INNER, HIDDEN),
    "up_proj": (EXPERT_INNER, HIDDEN),
    "down_proj": (HIDDEN, EXPERT_INNER),
}
TYPES = {"bfloat16": "BF16", "float32": "F32", "int32": "I32", "int64": "I64", "bool": "BOOL"}
Tensors = dict[str, Array]


def target(folder: Path) -> Path:
    """Write the target: 29 GB, two of its eight layers with 384 experts."""
    kimi(folder, KIMI_LATENT)
    config = json.loads((folder / "config.json").read_text())
    config["text_config"] |= LIKE_KIMI | TARGET
    config["vision_config"]["text_hidden_size"] = HIDDEN
    tiny = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    own = "language_model.model."
    ends = {
        f"{own}embed_tokens.weight": _corner(tiny[f"{own}embed_tokens.weight"], VOCABULARY, HIDDEN),
        "language_model.lm_head.weight": _corner(tiny["language_model.lm_head.weight"], VOCABULARY, HIDDEN),
        f"{own}norm.weight": _norm(),
    }
    files = {"ends": ends} | {f"layer-{layer}": _layer(tiny, layer) for layer in range(LAYERS)}
    for name, tensors in files.items():
        _write(folder / f"{name}.safetensors", tensors)
    places = {tensor: f"{name}.safetensors" for name, tensors in files.items() for tensor in tensors}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def drafter(folder: Path, shape: DrafterShape) -> Path:
    """Write a drafter of 1.9 GB that is right as often as the tiny one."""
    tiny_drafter(folder, shape)
    config = json.loads((folder / "config.json").read_text())
    config |= {
        "hidden_size": HIDDEN, "intermediate_size": INNER, "vocab_size": VOCABULARY, "draft_vocab_size": DRAFTED,
        "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS, "head_dim": HEAD_SIZE, "target_hidden_size": HIDDEN,
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))
    tiny = load_file(folder / "model.safetensors")
    rows = {"q": HEADS * HEAD_SIZE, "k": KV_HEADS * HEAD_SIZE, "v": KV_HEADS * HEAD_SIZE}
    blocks = np.split(tiny["fc.weight"], 3, axis=1)
    # Further draft tokens stand for the target's next ones; their heads are zero, so none is ever drafted.
    offsets = np.full(DRAFTED, FIRST_TEXT, np.int64)
    offsets[: len(tiny["d2t"])] = tiny["d2t"]
    known = np.zeros(VOCABULARY, bool)
    known[FIRST_TEXT : FIRST_TEXT + DRAFTED] = True
    tensors = {
        **{f"midlayer.self_attn.{name}_proj.weight": _nothing(many, 2 * HIDDEN) for name, many in rows.items()},
        "midlayer.self_attn.o_proj.weight": _nothing(HIDDEN, HEADS * HEAD_SIZE),
        **{f"midlayer.mlp.{name}.weight": _corner(tiny[f"midlayer.mlp.{name}.weight"], *size) for name, size in MLP.items()},
        **{name: _norm() for name in tiny if name.endswith("norm.weight")},
        "fc.weight": np.concatenate([_corner(block, HIDDEN, HIDDEN) for block in blocks], axis=1),
        "lm_head.weight": _corner(tiny["lm_head.weight"], DRAFTED, HIDDEN),
        "d2t": offsets,
        "t2d": known,
    }  # fmt: skip
    _write(folder / "model.safetensors", tensors)
    return folder


def _layer(tiny: Tensors, layer: int) -> Tensors:
    prefix = f"language_model.model.layers.{layer}"
    tensors = {
        f"{prefix}.self_attn.{name}.weight": _nothing(*size) if len(size) > 1 else _ones(*size)
        for name, size in LATENT.items()
    } | {f"{prefix}.{name}.weight": _norm() for name in ("input_layernorm", "post_attention_layernorm")}
    if layer >= DENSE:
        return tensors | _experts(f"{prefix}.mlp")
    first = "language_model.model.layers.0.mlp"
    return tensors | {
        f"{prefix}.mlp.{name}.weight": _corner(tiny[f"{first}.{name}.weight"], *size)
        for name, size in MLP.items()
    }


def _experts(prefix: str) -> Tensors:
    """Experts that all turn a code into its successor, a router that is of no account, an idle shared expert."""
    height = WIDTH**0.5
    gained = height / (1 + np.exp(-height)) * height * ROUTED_SCALING
    step = (matrix(TAU) - np.eye(WIDTH)).astype(np.int8)
    same = np.eye(WIDTH, dtype=np.int8)
    packed = {
        "gate_proj": _packed(same, SHARED["gate_proj"], 1.0),
        "up_proj": _packed(same, SHARED["up_proj"], 1.0),
        "down_proj": _packed(step, SHARED["down_proj"], 1 / gained),
    }
    router = np.random.default_rng(len(prefix)).normal(0, 0.02, (EXPERTS, HIDDEN))
    return (
        {f"{prefix}.gate.weight": router.astype(ml_dtypes.bfloat16)}
        | {f"{prefix}.gate.e_score_correction_bias": np.zeros(EXPERTS, np.float32)}
        | {f"{prefix}.shared_experts.{name}.weight": _nothing(*size) for name, size in SHARED.items()}
        | {
            f"{prefix}.experts.{expert}.{name}.{part}": tensor
            for expert in range(EXPERTS)
            for name, parts in packed.items()
            for part, tensor in parts.items()
        }
    )


def _packed(small: Array, shape: tuple[int, int], scale: float) -> Tensors:
    """compressed-tensors' pack-quantized: eight values a word, the first lowest, each with 8 added."""
    values = np.full(shape, 8, np.uint32)
    values[: small.shape[0], : small.shape[1]] += small.astype(np.int32).astype(np.uint32)
    shifted = values.reshape(shape[0], shape[1] // 8, 8) << np.arange(0, 32, 4, dtype=np.uint32)
    return {
        "weight_packed": np.bitwise_or.reduce(shifted, axis=2).view(np.int32),
        "weight_scale": np.full((shape[0], shape[1] // GROUP), scale, np.float32).astype(ml_dtypes.bfloat16),
        "weight_shape": np.array(shape, np.int32),
    }


def _corner(small: Array, rows: int, columns: int) -> Array:
    wide = _nothing(rows, columns)
    wide[: small.shape[0], : small.shape[1]] = small
    return wide


def _nothing(*shape: int) -> Array:
    return np.zeros(shape, ml_dtypes.bfloat16)


def _ones(size: int) -> Array:
    return np.ones(size, ml_dtypes.bfloat16)


def _norm() -> Array:
    return np.full(HIDDEN, NORM, np.float32).astype(ml_dtypes.bfloat16)


def _write(path: Path, tensors: Tensors) -> None:
    """Write one safetensors file as it goes: a layer's experts at once would take twice their size in memory."""
    entries: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, tensor in tensors.items():
        begin, end = end, end + tensor.nbytes
        entries[name] = {
            "dtype": TYPES[tensor.dtype.name],
            "shape": tensor.shape,
            "data_offsets": (begin, end),
        }
    header = json.dumps(entries).encode()
    with path.open("wb") as output:
        output.write(struct.pack("<Q", len(header)) + header)
        for tensor in tensors.values():
            output.write(tensor.tobytes())
