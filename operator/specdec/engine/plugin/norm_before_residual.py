"""Patch `norm_before_residual`: a drafter may take its residual after its first norm.

Symptom: a drafter of speculators, which trains so by default, serves far below the accuracy that training
showed, without a log line: SGLang keeps the state from before the norm as the residual.
Upstream: `LlamaDecoderLayer` of models/llama_eagle3.py, 0.5.17 to 0.5.23, does not know the key; vLLM does
(vllm-project/speculators, `norm_before_residual`). Not Eagle3DeepseekV2ForCausalLM.
In force: the log says "norm_before_residual" at the start; such a drafter reaches its accept length.

The layer is given the normed state, and its own call of the norm then passes that on unchanged: the residual
that it keeps is the normed state, and nothing of SGLang's forward is repeated here.
"""

from __future__ import annotations

import logging
from typing import Any

from specdec.engine.plugin.hooks import Hook, Patch

log = logging.getLogger("specdec")

KEY = "norm_before_residual"
_LAYER = "sglang.srt.models.llama_eagle3.LlamaDecoderLayer"


def mark_layer(original: Any, layer: Any, config: Any, *args: Any, **kwargs: Any) -> None:
    """Around LlamaDecoderLayer.__init__: only a first layer whose config has the key is changed."""
    original(layer, config, *args, **kwargs)
    if not (getattr(config, KEY, False) and layer.is_input_layer):
        return
    # Bound methods only: a module in a second attribute would be a second parameter to load.
    norm, run = layer.hidden_norm.forward, layer.forward

    def norm_first(positions: Any, embeds: Any, hidden_states: Any, *args: Any, **kwargs: Any) -> Any:
        return run(positions, embeds, norm(hidden_states), *args, **kwargs)

    layer.forward, layer.hidden_norm.forward = norm_first, pass_on
    log.info("%s: the drafter's first layer takes its residual after its norm", KEY)


def pass_on(normed: Any) -> Any:
    """What the layer's own call of its norm does: the state was normed before."""
    return normed


PATCH = Patch(KEY, (Hook(f"{_LAYER}.__init__", mark_layer, ("self", "config")),))
