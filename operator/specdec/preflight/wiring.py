"""Which tensor feeds which parameter: SGLang's loaders, replayed on names and shapes.

All names are brought to one form, that of SGLang 0.5.12 and newer without `model.` (`layers.0.mlp.up_proj.weight`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from specdec.preflight.capabilities import Capabilities
from specdec.preflight.facts import Case, Drafter, mapping, number
from specdec.preflight.header import Entry

LEGACY = (
    ("midlayer", "layers.0"), ("aux_norm_low", "fc_norm.0"), ("aux_norm_mid", "fc_norm.1"),
    ("aux_norm_high", "fc_norm.2"),
)  # fmt: skip
"""Old names that the Llama drafter's loader maps since 0.5.12 (models/llama_eagle3.py, load_weights)."""
HARMLESS = re.compile(r"(^|\.)(rotary_emb\.(inv_freq|cos_cached|sin_cached)|embed_tokens\.weight)$")
"""Computed from the config, or replaced by the target's."""

Shapes = Mapping[str, tuple[int, ...]]


@dataclass(frozen=True)
class Wiring:
    """What a load would do."""

    fed: Mapping[str, Entry]
    """Tensors by the parameter that they feed, known or not."""
    dropped: tuple[str, ...]
    """Tensor names that no loader of this version takes."""


def wiring(drafter: Drafter, engine: Capabilities | None) -> Wiring:
    """Bring a drafter's tensor names to the common form, as this engine's loader would."""
    fed: dict[str, Entry] = {}
    dropped = []
    for name, entry in drafter.entries.items():
        if _token_table(name, mla=drafter.mla):
            continue
        known = _mla_name(name) if drafter.mla else _llama_name(name, engine)
        if known is None:
            dropped.append(name)
        else:
            fed[known] = entry
    return Wiring(fed, tuple(dropped))


def as_engine_names(name: str, engine: Capabilities | None) -> str:
    """What this version itself calls a parameter."""
    old = engine is not None and "layers.0" not in engine.layer_names
    return re.sub(r"^layers\.0\.", "midlayer.", name) if old else name


def _token_table(name: str, *, mla: bool) -> bool:
    if mla:
        return name.rpartition(".")[2] in {"d2t", "t2d"}
    return "d2t" in name or "t2d" in name


def _llama_name(name: str, engine: Capabilities | None) -> str | None:
    """Name of the parameter; None if the version drops it."""
    old = engine is not None and "layers.0" not in engine.layer_names
    if old and re.match(r"(model\.)?layers\.\d+\.", name):
        return None
    for legacy, new in LEGACY[:1] if old else LEGACY:
        name = name.replace(legacy, new)
    if name.startswith("model.") and not name.startswith("model.lm_head."):
        return name.removeprefix("model.")
    return name


def _mla_name(name: str) -> str | None:
    """The MLA loader puts `model.` before every name but the head's, so that one with it already is dropped."""
    if name.startswith("model."):
        return None
    return re.sub(r"^midlayer\.", "layers.0.", name)


def states(drafter: Drafter, engine: Capabilities | None) -> int:
    """Number of captured states that `fc` is built for."""
    if engine is not None and not drafter.mla and not engine.counts_ids:
        return 3
    explicit = None if drafter.mla else number(drafter.config, "num_aux_hidden_states")
    ids = drafter.nested_ids
    if ids is None and drafter.mla:
        ids = drafter.top_ids
    return explicit or (len(ids) if ids else 3)


def flag(config: Mapping[str, object], *keys: str) -> bool:
    """Whether one of some config keys is set."""
    return any(bool(config.get(key)) for key in keys)


def borrows_head(drafter: Drafter) -> bool:
    """Whether SGLang gives the drafter the target's head."""
    return drafter.config.get("draft_vocab_size") is None and not flag(drafter.config, "tie_word_embeddings")


def expected(case: Case) -> Shapes | None:
    """Shapes of all parameters that need a tensor; None if the config does not give the sizes."""
    drafter = case.drafter
    if drafter is None:
        return None
    config = drafter.config
    hidden, inner = number(config, "hidden_size"), number(config, "intermediate_size")
    layers = number(config, "num_hidden_layers") or 1
    if hidden is None or inner is None or layers > 64:
        return None
    found: dict[str, tuple[int, ...]] = {}
    for layer in range(layers):
        attention = (
            _mla_attention(drafter, hidden) if drafter.mla else _attention(drafter, hidden, first=layer == 0)
        )
        if attention is None:
            return None
        found |= {
            f"layers.{layer}.{name}": shape for name, shape in (attention | _block(hidden, inner)).items()
        }
    return found | _ends(case, drafter, hidden)


def _attention(drafter: Drafter, hidden: int, *, first: bool) -> dict[str, tuple[int, ...]] | None:
    heads = number(drafter.config, "num_attention_heads")
    if heads is None:
        return None
    size = number(drafter.config, "head_dim") or hidden // heads
    groups = number(drafter.config, "num_key_value_heads") or heads
    width = 2 * hidden if first else hidden
    return {
        "self_attn.q_proj.weight": (heads * size, width),
        "self_attn.k_proj.weight": (groups * size, width),
        "self_attn.v_proj.weight": (groups * size, width),
        "self_attn.o_proj.weight": (hidden, heads * size),
    }


def _mla_attention(drafter: Drafter, hidden: int) -> dict[str, tuple[int, ...]] | None:
    keys = (
        "num_attention_heads", "q_lora_rank", "kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim",
    )  # fmt: skip
    sizes = [number(drafter.config, key) for key in keys]
    if any(size is None for size in sizes):
        return None
    heads, q_rank, kv_rank, plain, rope, value = (size or 0 for size in sizes)
    return {
        "self_attn.q_a_proj.weight": (q_rank, 2 * hidden),
        "self_attn.kv_a_proj_with_mqa.weight": (kv_rank + rope, 2 * hidden),
        "self_attn.q_a_layernorm.weight": (q_rank,),
        "self_attn.q_b_proj.weight": (heads * (plain + rope), q_rank),
        "self_attn.kv_a_layernorm.weight": (kv_rank,),
        "self_attn.kv_b_proj.weight": (heads * (plain + value), kv_rank),
        "self_attn.o_proj.weight": (hidden, heads * value),
    }


def _block(hidden: int, inner: int) -> dict[str, tuple[int, ...]]:
    return {
        "mlp.gate_proj.weight": (inner, hidden),
        "mlp.up_proj.weight": (inner, hidden),
        "mlp.down_proj.weight": (hidden, inner),
        "input_layernorm.weight": (hidden,),
        "hidden_norm.weight": (hidden,),
        "post_attention_layernorm.weight": (hidden,),
    }


def _ends(case: Case, drafter: Drafter, hidden: int) -> dict[str, tuple[int, ...]]:
    """What lies before and after the layers."""
    config, engine = drafter.config, case.engine
    width, count = number(config, "target_hidden_size") or hidden, states(drafter, engine)
    found: dict[str, tuple[int, ...]] = {"fc.weight": (hidden, count * width), "norm.weight": (hidden,)}
    if flag(config, "bias"):
        found["fc.bias"] = (hidden,)
    if flag(config, "fc_norm", "use_aux_norm") and (engine is None or engine.fc_norm):
        found |= {f"fc_norm.{index}.weight": (width,) for index in range(count)}
    if norm_before_fc(drafter) and not drafter.mla and (engine is None or engine.norm_before_fc):
        found["input_norm.weight"] = (count * width,)
    rows = number(config, "draft_vocab_size")
    if not borrows_head(drafter) and not flag(config, "tie_word_embeddings") and rows is not None:
        found["lm_head.weight"] = (rows, hidden)
    vocabulary = number(config, "vocab_size")
    if width != hidden and vocabulary is not None:
        found["embed_tokens.weight"] = (vocabulary, hidden)
    return found


def norm_before_fc(drafter: Drafter) -> bool:
    """Whether the concatenated states are normed before fc; eagle_config wins (models/llama_eagle3.py)."""
    nested = mapping(drafter.config, "eagle_config")
    return bool(nested.get("norm_before_fc", drafter.config.get("norm_before_fc")))
