"""Names that may be unused or unfed when a drafter loads, each with its reason.

Data, so that every exception to "every tensor is consumed and every parameter is fed" can be read in one place.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Allowed:
    """One exception."""

    name: str
    """End of a tensor's or parameter's name, at a dot."""
    reason: str
    holds: Callable[[Any], bool] = lambda _model: True
    """Whether it holds for this draft model."""

    def covers(self, model: Any, name: str) -> bool:
        """Whether this exception is about that name."""
        return (name == self.name or name.endswith(f".{self.name}")) and self.holds(model)


def shares_embedding(model: Any) -> bool:
    """Whether SGLang gives the draft model the target's embedding (LlamaForCausalLM.set_embed)."""
    config = model.config
    return getattr(config, "target_hidden_size", config.hidden_size) == config.hidden_size


def shares_head(model: Any) -> bool:
    """Whether SGLang gives the draft model the target's head (no draft_vocab_size in the config)."""
    return bool(getattr(model, "load_lm_head_from_target", False))


UNUSED_TENSORS = (
    Allowed("d2t", "read as the token map"),
    Allowed("t2d", "derived from d2t"),
    Allowed("rotary_emb.inv_freq", "computed from the config"),
    Allowed("rotary_emb.cos_cached", "computed from the config"),
    Allowed("rotary_emb.sin_cached", "computed from the config"),
)

UNFED_PARAMETERS = (
    Allowed("embed_tokens.weight", "shared with the target", shares_embedding),
    Allowed("lm_head.weight", "shared with the target", shares_head),
)

FUSED = (("q_a_proj", "fused_qkv_a_proj_with_mqa"), ("kv_a_proj_with_mqa", "fused_qkv_a_proj_with_mqa"))
"""(part of a tensor's name, part of a parameter's name): the MLA drafter holds the first tensor back until its
partner arrives, then feeds both in one call; consumed if that parameter was fed."""
