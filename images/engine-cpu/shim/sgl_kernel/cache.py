"""Book-keeping of cache slots: which token of which request lies where.

Arguments with a leading underscore are SGLang's, and tell a compiled kernel sizes that tensors here know themselves.
"""

import ctypes

import torch


def _requests(req_pool_indices, *columns):
    return zip(req_pool_indices.tolist(), *(column.tolist() for column in columns), strict=True)


def assign_req_to_token_pool_cpu(
    req_pool_indices, req_to_token, start_offset, end_offset, out_cache_loc, _pool_len
):
    """Write the new slots of each request into its row."""
    taken = 0
    for row, start, end in _requests(req_pool_indices, start_offset, end_offset):
        req_to_token[row, start:end] = out_cache_loc[taken : taken + end - start].to(req_to_token.dtype)
        taken += end - start


def assign_extend_cache_locs_cpu(
    req_pool_indices, req_to_token, start_offset, end_offset, out_cache_loc, _pool_len
):
    """Read the slots of each request's new tokens out of its row."""
    taken = 0
    for row, start, end in _requests(req_pool_indices, start_offset, end_offset):
        out_cache_loc[taken : taken + end - start] = req_to_token[row, start:end].to(out_cache_loc.dtype)
        taken += end - start


def assign_draft_cache_locs_contiguous_cpu(
    req_pool_indices, req_to_token, seq_lens, out_cache_loc, _pool_len, topk, num_steps
):
    """Read the slots that follow each request's tokens: the draft's."""
    width = topk * num_steps
    for i, (row, length) in enumerate(_requests(req_pool_indices, seq_lens)):
        slots = req_to_token[row, length : length + width]
        out_cache_loc[i * width : (i + 1) * width] = slots.to(out_cache_loc.dtype)


def build_draft_decode_metadata_cpu(req_to_token, req_pool_indices, seq_lens, topk, num_steps, pool_len):
    """Give each branch of the draft a row of its own: the request's tokens, then the branch's."""
    rows = req_to_token.new_zeros(req_pool_indices.numel() * topk, pool_len)
    for i, (row, length) in enumerate(_requests(req_pool_indices, seq_lens)):
        for branch in range(topk):
            start = length + branch * num_steps
            rows[i * topk + branch, :length] = req_to_token[row, :length]
            rows[i * topk + branch, length : length + num_steps] = req_to_token[
                row, start : start + num_steps
            ]
    return rows


def fill_bonus_tokens_cpu(accept_tokens, accept_lens, bonus_tokens, accept_stride):
    """Pick each request's last accepted token: the target's own."""
    last = torch.arange(accept_lens.numel()) * accept_stride + accept_lens.long() - 1
    bonus_tokens.copy_(accept_tokens.flatten()[last].to(bonus_tokens.dtype))


def fill_accept_out_cache_loc_cpu(accept_index, out_cache_loc, accept_out_cache_loc):
    """Gather the slots of the accepted tokens to the front."""
    index = accept_index.flatten()
    index = index[index > -1].long()
    accept_out_cache_loc[: index.numel()] = out_cache_loc[index]


def copy_all_layer_kv_cache_cpu(data_ptrs, strides, target_locations, source_locations):
    """Move cached tokens to other slots in every layer; all are read before any is written."""
    sources, targets = source_locations.tolist(), target_locations.tolist()
    for address, size in zip(data_ptrs.tolist(), strides.tolist(), strict=True):
        rows = [ctypes.string_at(address + source * size, size) for source in sources]
        for target, row in zip(targets, rows, strict=True):
            ctypes.memmove(address + target * size, row, size)
