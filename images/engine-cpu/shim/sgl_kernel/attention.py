"""Attention over SGLang's paged key and value buffers, one request at a time, in float32."""

import torch


def _attend(query, key, value, scale, logit_cap, mask=None, sinks=None):
    """Attend with query [Tq, Hq, D] to key [Tk, Hk, D] and value [Tk, Hk, Dv]; a true mask [Tq, Tk] lets through."""
    share = query.shape[1] // key.shape[1]
    query = query.float().transpose(0, 1)
    key = key.float().transpose(0, 1).repeat_interleave(share, 0)
    value = value.float().transpose(0, 1).repeat_interleave(share, 0)
    scores = torch.matmul(query, key.transpose(1, 2)) * scale
    if logit_cap and logit_cap > 0:
        scores = logit_cap * torch.tanh(scores / logit_cap)
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    if sinks is None:
        weights = torch.softmax(scores, -1)
    else:
        # A sink takes part in the softmax and adds nothing to the output.
        sink = sinks.float().view(-1, 1, 1).expand(*scores.shape[:2], 1)
        weights = torch.softmax(torch.cat([scores, sink], -1), -1)[..., :-1]
    return torch.matmul(weights, value).transpose(0, 1)


def decode_attention_cpu(
    query,
    key_buffer,
    value_buffer,
    _key_scale,
    _value_scale,
    output,
    key,
    value,
    location,
    _logits,
    req_to_token,
    req_pool_indices,
    seq_lens,
    scale,
    logit_cap,
    is_cross_attention,
    window,
    _encoder_lens,
    sinks,
):
    """Attend with one token per request; the op itself stores that token's key and value."""
    if key is not None and not is_cross_attention:
        key_buffer[location] = key.reshape(-1, *key_buffer.shape[1:]).to(key_buffer.dtype)
        if value is not None:
            value_buffer[location] = value.reshape(-1, *value_buffer.shape[1:]).to(value_buffer.dtype)
    for i, (row, length) in enumerate(zip(req_pool_indices.tolist(), seq_lens.tolist(), strict=True)):
        first = max(0, length - window) if window and window > 0 else 0
        tokens = req_to_token[row, first:length].long()
        attended = _attend(
            query[i : i + 1], key_buffer[tokens], value_buffer[tokens], scale, logit_cap, sinks=sinks
        )
        output[i : i + 1] = attended.to(output.dtype)


def extend_attention_cpu(
    query,
    key,
    value,
    output,
    key_buffer,
    value_buffer,
    _key_scale,
    _value_scale,
    req_to_token,
    req_pool_indices,
    seq_lens,
    extend_seq_lens,
    extend_start_loc,
    _max_extend_len,
    scale,
    logit_cap,
    _is_cross_attention,
    window,
    _encoder_lens,
    sinks,
    tree_mask,
    is_causal=True,
):
    """Attend with several new tokens per request; a tree mask says which draft tokens see which."""
    mask_start = 0
    rows = zip(
        *(column.tolist() for column in (req_pool_indices, seq_lens, extend_seq_lens, extend_start_loc)),
        strict=True,
    )
    for row, length, extend, start in rows:
        if extend == 0:
            continue
        new = slice(start, start + extend)
        prefix = length - extend
        known = req_to_token[row, : length if key is None else prefix].long()
        keys, values = key_buffer[known], value_buffer[known]
        if key is not None:
            keys = _append(keys, key[new].reshape(extend, -1, query.shape[-1]))
            values = _append(values, value[new].reshape(extend, -1, output.shape[-1]))
        mask = _mask(extend, length, window, is_causal=is_causal)
        if tree_mask is not None:
            mask[:, prefix:] = (
                tree_mask[mask_start : mask_start + extend * extend].view(extend, extend).bool()
            )
            mask_start += extend * extend
        output[new] = _attend(query[new], keys, values, scale, logit_cap, mask, sinks).to(output.dtype)


def _append(cached, new):
    # With nothing cached MLA attends with all heads, and the buffers have one.
    return torch.cat([cached.to(new.dtype), new]) if len(cached) else new


def _mask(extend, length, window, *, is_causal):
    asking = torch.arange(extend).unsqueeze(1) + length - extend
    asked = torch.arange(length).unsqueeze(0)
    mask = asked <= asking if is_causal else torch.ones(extend, length, dtype=torch.bool)
    if window and window > 0:
        mask = mask & (asked > asking - window)
    return mask
