"""A second set of the draft model's parameters in host memory, filled by the model's own `load_weights`.

The shadow is a view of the serving model: a shallow copy whose `named_parameters` yields clones with the same
weight loaders. So names are mapped, shards cut and layers fused by the very code that loaded the serving
drafter, while nothing that serves is touched. That is sound for models whose `load_weights` reaches tensors
through `named_parameters` alone and keeps nothing else than `hot_token_id`: the classes in :data:`AUDITED`.
What they compute from their weights afterwards is left out here and made by the swap (`derived`).
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

from specdec.engine.plugin.derived import RECOMPUTE
from specdec.engine.plugin.refusal import RefusedError

AUDITED = {
    "LlamaForCausalLMEagle3": "load_weights writes through named_parameters and sets hot_token_id (0.5.12 to 0.5.23)",
    "Eagle3DeepseekV2ForCausalLM": "the same, then post_load_weights makes w_kc and w_vc (0.5.17 to 0.5.23)",
}
"""Draft model classes that can be swapped in place, and what was read."""

ALIGNMENT = 64


@dataclass(frozen=True)
class Shadow:
    """The view to load into, and the clones behind it."""

    view: Any
    clones: dict[str, Any]
    shared: frozenset[str]
    """Parameters whose storage belongs to the target: their clones take a tensor and hold nothing."""


def check(model: Any) -> None:
    """Tell whether a draft model can be swapped in place at all.

    Raises
    ------
    RefusedError
        It can't.
    """
    import torch

    kind = type(model).__name__
    if kind not in AUDITED:
        raise RefusedError("NotSwappable", f"{kind} can't be swapped in place, only {', '.join(AUDITED)}")
    if getattr(model, "quant_config", None) is not None:
        raise RefusedError("NotSwappable", "a quantised drafter can't be swapped in place")
    for name, parameter in model.named_parameters():
        if type(parameter) is not torch.nn.Parameter or not parameter.dtype.is_floating_point:
            raise RefusedError(
                "NotSwappable", f"parameter {name} is a {type(parameter).__name__} of {parameter.dtype}"
            )


def size(model: Any, target_pointers: frozenset[int]) -> int:
    """Bytes that a shadow takes."""
    return sum(_aligned(tensor) for tensor in model.parameters() if tensor.data_ptr() not in target_pointers)


def make(model: Any, target_pointers: frozenset[int], buffer: Any) -> Shadow:
    """Clone the parameters of a draft model into a buffer of bytes."""
    import torch

    # All bits set is NaN in every float type: it stays where nothing is written, so "all finite" also means
    # "written whole".
    buffer.fill_(0xFF)
    clones, shared, begin = {}, set(), 0
    for name, parameter in model.named_parameters():
        if parameter.data_ptr() in target_pointers:
            shared.add(name)
            data = torch.empty(parameter.shape, dtype=parameter.dtype, device="meta")
        else:
            end = begin + parameter.numel() * parameter.element_size()
            data = buffer[begin:end].view(parameter.dtype).view(parameter.shape)
            begin += _aligned(parameter)
        clones[name] = torch.nn.Parameter(data, requires_grad=False)
        clones[name].__dict__.update(parameter.__dict__)
    return Shadow(_view(model, clones), clones, frozenset(shared))


def _aligned(tensor: Any) -> int:
    """Size of a tensor, rounded up so that the next one begins where any type may."""
    return -(-tensor.numel() * tensor.element_size() // ALIGNMENT) * ALIGNMENT


def _view(model: Any, clones: dict[str, Any]) -> Any:
    view = copy.copy(model)
    for store in ("_parameters", "_buffers", "_modules"):
        view.__dict__[store] = dict(view.__dict__[store])
    view.__dict__["named_parameters"] = lambda *_args, **_kwargs: iter(clones.items())
    view.__dict__["hot_token_id"] = None
    # The view shares its modules with the serving model: it would bind what it computes there.
    view.__dict__[RECOMPUTE] = lambda: None
    return view
