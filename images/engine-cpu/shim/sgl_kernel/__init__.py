"""A stand-in in plain PyTorch for the CPU build of SGLang's kernel package, of which there is no wheel.

It has the ops that SGLang 0.5.23 calls for `--device cpu --attention-backend intel_amx` with EAGLE-3, with SGLang's
names and argument order. It is slow, and meant for tiny models in tests.

`convert_weight_packed` is left out on purpose: SGLang looks for it to learn whether the AMX kernels are there.
"""

import torch

from .attention import decode_attention_cpu, extend_attention_cpu
from .cache import (
    assign_draft_cache_locs_contiguous_cpu,
    assign_extend_cache_locs_cpu,
    assign_req_to_token_pool_cpu,
    build_draft_decode_metadata_cpu,
    copy_all_layer_kv_cache_cpu,
    fill_accept_out_cache_loc_cpu,
    fill_bonus_tokens_cpu,
)
from .tree import build_tree_kernel_efficient_cpu, verify_tree_greedy_cpu

__version__ = "0.4.10+torch"
__all__ = [
    "assign_draft_cache_locs_contiguous_cpu",
    "assign_extend_cache_locs_cpu",
    "assign_req_to_token_pool_cpu",
    "build_draft_decode_metadata_cpu",
    "build_tree_kernel_efficient_cpu",
    "copy_all_layer_kv_cache_cpu",
    "decode_attention_cpu",
    "extend_attention_cpu",
    "fill_accept_out_cache_loc_cpu",
    "fill_bonus_tokens_cpu",
    "reconstruct_indices_from_tree_mask",
    "rotate_input_ids_cpu",
    "verify_tree_greedy_cpu",
]

torch.ops.sgl_kernel.decode_attention_cpu = decode_attention_cpu
torch.ops.sgl_kernel.extend_attention_cpu = extend_attention_cpu


def rotate_input_ids_cpu(*_arguments, **_named):
    """Refuse: SGLang imports the name, and only drafters of several EAGLE layers call it."""
    raise NotImplementedError("the CPU stand-in serves no multi-layer EAGLE")


def reconstruct_indices_from_tree_mask(*_arguments, **_named):
    """Refuse: SGLang imports the name, and only n-gram drafting calls it."""
    raise NotImplementedError("the CPU stand-in serves no n-gram speculation")
