"""Checkpoints of any size as headers over sparse files: what the preflight reads is there, the weights are holes."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any

from specdec.preflight.header import BITS

Tensors = dict[str, tuple[str, list[int]]]
"""Name -> type and shape."""


def laid_out(tensors: Mapping[str, tuple[str, list[int]]]) -> dict[str, dict[str, Any]]:
    """Describe tensors side by side, as a header does."""
    place, header = 0, {}
    for name, (dtype, shape) in tensors.items():
        end = place + prod(shape) * BITS[dtype] // 8
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [place, end]}
        place = end
    return header


def write_file(
    path: Path,
    tensors: Mapping[str, tuple[str, list[int]]],
    data: Mapping[str, bytes] | None = None,
    metadata: Mapping[str, str] | None = None,
) -> Path:
    """Write one safetensors file, with zeros (holes) for all data that is not given."""
    header: dict[str, Any] = laid_out(tensors)
    ends = [entry["data_offsets"][1] for entry in header.values()]
    raw = json.dumps(({"__metadata__": dict(metadata)} if metadata else {}) | header).encode()
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(raw)) + raw)
        file.truncate(8 + len(raw) + max(ends, default=0))
        for name, content in (data or {}).items():
            file.seek(8 + len(raw) + header[name]["data_offsets"][0])
            file.write(content)
    return path


@dataclass
class Fixture:
    """A checkpoint in the making: change what a case needs, then write it."""

    config: dict[str, Any]
    tensors: Tensors
    d2t: list[int] | None = None
    t2d: bytes | None = None
    metadata: dict[str, str] = field(default_factory=dict)
    card: str = ""

    def with_config(self, **keys: Any) -> Fixture:
        """A copy with further config keys; None removes one."""
        changed = deepcopy(self)
        changed.config = {key: value for key, value in (self.config | keys).items() if value is not ABSENT}
        return changed

    def without(self, *names: str) -> Fixture:
        """A copy without some tensors."""
        changed = deepcopy(self)
        changed.tensors = {name: kind for name, kind in self.tensors.items() if name not in names}
        return changed

    def adding(self, tensors: Tensors) -> Fixture:
        """A copy with more or other tensors."""
        changed = deepcopy(self)
        changed.tensors = self.tensors | tensors
        return changed

    def renamed(self, old: str, new: str) -> Fixture:
        """A copy whose names have another part."""
        changed = deepcopy(self)
        changed.tensors = {name.replace(old, new): kind for name, kind in self.tensors.items()}
        return changed

    def mapping(self, d2t: Iterable[int] | None, t2d: bytes | None = None) -> Fixture:
        """A copy with another token map."""
        changed = deepcopy(self)
        changed.d2t = None if d2t is None else list(d2t)
        changed.t2d = t2d
        for name in ("d2t", "t2d"):
            changed.tensors.pop(name, None)
        if changed.d2t is not None:
            changed.tensors["d2t"] = ("I64", [len(changed.d2t)])
        if t2d is not None:
            changed.tensors["t2d"] = ("BOOL", [len(t2d)])
        return changed

    def write(self, folder: Path) -> Path:
        """Write config, weights and card."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.json").write_text(json.dumps(self.config))
        if self.card:
            (folder / "README.md").write_text(self.card)
        tables = {"t2d": self.t2d}
        if self.d2t is not None:
            tables["d2t"] = struct.pack(f"<{len(self.d2t)}q", *self.d2t)
        names = {name.rpartition(".")[2]: name for name in self.tensors}
        data = {names[table]: content for table, content in tables.items() if content and table in names}
        write_file(folder / "model.safetensors", self.tensors, data, self.metadata)
        return folder


ABSENT = object()
"""Value of `with_config` that removes a key."""
HIDDEN, VOCABULARY, DRAFT_VOCABULARY = 7168, 163840, 32000


def kimi_k25() -> Fixture:
    """The target: Kimi-K2.5's sizes, with two of its many tensors."""
    text = {
        "model_type": "kimi_k2", "hidden_size": HIDDEN, "num_hidden_layers": 61, "num_attention_heads": 64,
        "vocab_size": VOCABULARY, "max_position_embeddings": 262144,
    }  # fmt: skip
    config = {
        "architectures": ["KimiK25ForConditionalGeneration"],
        "model_type": "kimi_k25",
        "text_config": text,
    }
    tensors: Tensors = {"language_model.lm_head.weight": ("BF16", [VOCABULARY, HIDDEN])}
    return Fixture(config | {"_name_or_path": "moonshotai/Kimi-K2.5"}, tensors)


def every_fifth() -> tuple[list[int], bytes]:
    """A token map: draft token i is target token 5 i."""
    marks = bytearray(VOCABULARY)
    for index in range(DRAFT_VOCABULARY):
        marks[5 * index] = 1
    return [4 * index for index in range(DRAFT_VOCABULARY)], bytes(marks)


def llama() -> Fixture:
    """A Llama-style EAGLE-3 drafter of Kimi-K2.5, sound on every version that captures for that target."""
    config = {
        "architectures": ["LlamaForCausalLMEagle3"], "model_type": "llama", "hidden_size": HIDDEN,
        "num_hidden_layers": 1, "num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 128,
        "intermediate_size": 18432, "vocab_size": VOCABULARY, "draft_vocab_size": DRAFT_VOCABULARY,
        "max_position_embeddings": 262144, "tie_word_embeddings": False, "rope_theta": 1e6,
        "eagle_config": {"use_aux_hidden_state": True, "eagle_aux_hidden_state_layer_ids": [2, 30, 58]},
    }  # fmt: skip
    shapes = {
        "self_attn.q_proj": [8192, 2 * HIDDEN], "self_attn.k_proj": [1024, 2 * HIDDEN],
        "self_attn.v_proj": [1024, 2 * HIDDEN], "self_attn.o_proj": [HIDDEN, 8192], "mlp.gate_proj": [18432, HIDDEN],
        "mlp.up_proj": [18432, HIDDEN], "mlp.down_proj": [HIDDEN, 18432], "input_layernorm": [HIDDEN],
        "hidden_norm": [HIDDEN], "post_attention_layernorm": [HIDDEN],
    }  # fmt: skip
    tensors: Tensors = {f"midlayer.{name}.weight": ("BF16", shape) for name, shape in shapes.items()}
    tensors |= {
        "norm.weight": ("BF16", [HIDDEN]),
        "fc.weight": ("BF16", [HIDDEN, 3 * HIDDEN]),
        "lm_head.weight": ("BF16", [DRAFT_VOCABULARY, HIDDEN]),
    }
    return Fixture(config, tensors).mapping(*every_fifth())


def mla() -> Fixture:
    """An EAGLE-3 drafter with latent attention and the whole vocabulary."""
    config = {
        "architectures": ["Eagle3DeepseekV2ForCausalLM"], "model_type": "kimi_k2", "hidden_size": HIDDEN,
        "num_hidden_layers": 1, "num_attention_heads": 64, "num_key_value_heads": 64, "intermediate_size": 18432,
        "vocab_size": VOCABULARY, "draft_vocab_size": VOCABULARY, "max_position_embeddings": 262144,
        "tie_word_embeddings": False, "q_lora_rank": 1536, "kv_lora_rank": 512, "qk_rope_head_dim": 64,
        "qk_nope_head_dim": 128, "v_head_dim": 128, "rope_parameters": {"rope_type": "default", "rope_theta": 5e4},
        "eagle_config": {"use_aux_hidden_state": True, "eagle_aux_hidden_state_layer_ids": [2, 30, 58]},
    }  # fmt: skip
    shapes = {
        "self_attn.q_a_proj": [1536, 2 * HIDDEN], "self_attn.kv_a_proj_with_mqa": [576, 2 * HIDDEN],
        "self_attn.q_a_layernorm": [1536], "self_attn.q_b_proj": [64 * 192, 1536], "self_attn.kv_a_layernorm": [512],
        "self_attn.kv_b_proj": [64 * 256, 512], "self_attn.o_proj": [HIDDEN, 64 * 128],
        "mlp.gate_proj": [18432, HIDDEN], "mlp.up_proj": [18432, HIDDEN], "mlp.down_proj": [HIDDEN, 18432],
        "input_layernorm": [HIDDEN], "hidden_norm": [HIDDEN], "post_attention_layernorm": [HIDDEN],
    }  # fmt: skip
    tensors: Tensors = {f"layers.0.{name}.weight": ("BF16", shape) for name, shape in shapes.items()}
    tensors |= {
        "norm.weight": ("BF16", [HIDDEN]),
        "fc.weight": ("BF16", [HIDDEN, 3 * HIDDEN]),
        "lm_head.weight": ("BF16", [VOCABULARY, HIDDEN]),
    }
    return Fixture(config, tensors)


def speculators(version: str = "0.3.0") -> Fixture:
    """The Llama drafter as speculators' training saves it."""
    flat = llama()
    outer = {"draft_vocab_size", "architectures", "model_type", "eagle_config"}
    inner = {key: value for key, value in flat.config.items() if key not in outer} | {"model_type": "llama"}
    config = {
        "architectures": ["Eagle3Speculator"], "speculators_model_type": "eagle3", "speculators_version": version,
        "draft_vocab_size": DRAFT_VOCABULARY, "target_hidden_size": None, "norm_before_residual": False,
        "transformer_layer_config": inner,
        "speculators_config": {
            "algorithm": "eagle3", "proposal_methods": [],
            "verifier": {"name_or_path": "moonshotai/Kimi-K2.5", "architectures": []},
        },
    }  # fmt: skip
    embedding: Tensors = {"embed_tokens.weight": ("BF16", [VOCABULARY, HIDDEN])}
    changed = flat.renamed("midlayer.", "layers.0.").adding(embedding)
    changed.config = config
    return changed
