"""Patch `embedding_capture`: a drafter may ask for layer -1, the embedding's output.

Symptom: "captured 2 of 3 aux hidden states" at the first forward, never healthy (0.5.17 and newer); before,
a shorter hidden state and accept length 1.00.
Upstream: `set_eagle3_layers_to_capture` of deepseek_v2 reads ids as "input of layer i" (0.5.13 and newer), so
the embedding's output is 0 and -1 is unknown. llama.py adds 1 to every id and needs no patch.
In force: the log says "EAGLE-3 capture points" with the ids; such a drafter reaches its accept length.
"""

from __future__ import annotations

import logging
from typing import Any

from specdec.engine.plugin.hooks import Hook, Patch

log = logging.getLogger("specdec")
EMBEDDING = -1


def capture_embedding(original: Any, model: Any, layer_ids: list[int] | None = None) -> None:
    """Around DeepseekV2ForCausalLM.set_eagle3_layers_to_capture."""
    if not layer_ids or EMBEDDING not in layer_ids:
        original(model, layer_ids)
        return
    original(model, [layer for layer in layer_ids if layer != EMBEDDING])
    if not model.pp_group.is_last_rank:
        return
    model.model.layers_to_capture = with_embedding(layer_ids, model.model.layers_to_capture)
    log.info("EAGLE-3 capture points: %s -> %s", layer_ids, model.model.layers_to_capture)


def with_embedding(asked: list[int], captured: list[int]) -> list[int]:
    """Put 0, the input of the first layer, where -1 was asked for; SGLang has read the other ids."""
    others = iter(captured)
    return [0 if layer == EMBEDDING else next(others) for layer in asked]


PATCH = Patch(
    "embedding_capture",
    (
        Hook(
            "sglang.srt.models.deepseek_v2.DeepseekV2ForCausalLM.set_eagle3_layers_to_capture",
            capture_embedding,
            ("self", "layer_ids"),
        ),
    ),
)
