"""Tensors that a draft model computes from its weights when it loads: computed again by a swap, where they lie.

Symptom: `Eagle3DeepseekV2ForCausalLM.post_load_weights` (0.5.17 to 0.5.23) splits `kv_b_proj` into new tensors
`w_kc` and `w_vc` at every load, while captured graphs read the first ones: attention of another drafter.
"""

from __future__ import annotations

from typing import Any

RECOMPUTE = "post_load_weights"
"""SGLang's name for what follows a load."""


def refresh(model: Any) -> None:
    """Let a draft model compute its derived tensors anew and copy them over those that graphs know.

    Raises
    ------
    ValueError
        A derived tensor has another shape than before.
    """
    recompute = getattr(model, RECOMPUTE, None)
    if recompute is None:
        return
    held = {
        (module, name): tensor
        for module in model.modules()
        for name, tensor in _plain_tensors(module).items()
    }
    try:
        recompute()
        for (module, name), tensor in held.items():
            _overwrite(name, tensor, getattr(module, name))
    finally:
        for (module, name), tensor in held.items():
            setattr(module, name, tensor)


def _plain_tensors(module: Any) -> dict[str, Any]:
    """Tensors that are neither parameters nor buffers."""
    import torch

    return {name: value for name, value in vars(module).items() if isinstance(value, torch.Tensor)}


def _overwrite(name: str, tensor: Any, fresh: Any) -> None:
    if fresh is tensor:
        return
    if fresh.shape != tensor.shape:
        raise ValueError(f"{name} was computed as {tuple(fresh.shape)}, expected {tuple(tensor.shape)}")
    tensor.copy_(fresh)
