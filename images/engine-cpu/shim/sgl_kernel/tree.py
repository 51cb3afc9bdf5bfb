"""The draft's token tree: laid out for one verify batch, and walked with the target's answers.

A request's nodes are numbered from 0 (the last token that is certain) in the order of `selected_index`; first child and
next sibling of each node are kept, with -1 for none.
"""

import torch

FULL_MASK, DRAFT_ONLY_MASK = 0, 1
"""SGLang's TreeMaskMode: a mask over prefix and draft, or over the draft tokens alone."""


def build_tree_kernel_efficient_cpu(
    parent_list,
    selected_index,
    verified_seq_len,
    tree_mask,
    positions,
    retrieve_index,
    retrieve_next_token,
    retrieve_next_sibling,
    topk,
    _depth,
    draft_token_num,
    tree_mask_mode,
):
    """Fill mask, positions and links for the chosen draft tokens of each request."""
    size = draft_token_num
    mode = int(tree_mask_mode)
    if mode not in (FULL_MASK, DRAFT_ONLY_MASK):
        raise ValueError(f"the CPU stand-in knows tree mask modes 0 and 1, not {mode}")
    written = 0
    for request, length in enumerate(verified_seq_len.tolist()):
        chosen = selected_index[request].tolist()
        parents = parent_list[request].tolist() if parent_list.numel() else []
        parent = _parents(chosen, parents, topk)
        child, sibling = _links(parent)
        visible = _ancestors(parent)
        nodes = slice(request * size, (request + 1) * size)
        retrieve_index[request] = torch.arange(nodes.start, nodes.stop)
        retrieve_next_token[request] = torch.tensor(child)
        retrieve_next_sibling[request] = torch.tensor(sibling)
        positions[nodes] = visible.sum(1) - 1 + length
        if mode == DRAFT_ONLY_MASK:
            tree_mask[nodes.start * size : nodes.stop * size] = visible.flatten()
        else:
            width = length + size
            tree_mask[written : written + width * size].view(size, width)[:, length:] = visible
            written += width * size


def _parents(chosen, parents, topk):
    """Find each node's parent node: a candidate's number tells whose child it is, `topk` children each."""
    node = {candidate: i + 1 for i, candidate in enumerate(chosen)}
    return [-1] + [0 if c // topk == 0 else node.get(parents[c // topk], 0) for c in chosen]


def _links(parent):
    child, sibling = [-1] * len(parent), [-1] * len(parent)
    # Backwards, so that siblings are linked in the order of their numbers.
    for node in range(len(parent) - 1, 0, -1):
        sibling[node], child[parent[node]] = child[parent[node]], node
    return child, sibling


def _ancestors(parent):
    """Mark for each node what it may attend to: the root, its ancestors and itself."""
    visible = torch.zeros(len(parent), len(parent), dtype=torch.bool)
    visible[:, 0] = True
    for node in range(1, len(parent)):
        at = node
        while at > 0:
            visible[node, at] = True
            at = parent[at]
    return visible


def verify_tree_greedy_cpu(
    predicts,
    accept_index,
    accept_token_num,
    candidates,
    retrive_index,
    retrive_next_token,
    retrive_next_sibling,
    target_predict,
):
    """Walk each tree along the tokens that the target itself would have chosen.

    SGLang passes these arguments by name, three of them spelled so.
    """
    wanted = target_predict.flatten().tolist()
    for request in range(candidates.shape[0]):
        slots, tokens = retrive_index[request].tolist(), candidates[request].tolist()
        child, sibling = retrive_next_token[request].tolist(), retrive_next_sibling[request].tolist()
        node, path = 0, [slots[0]]
        while len(path) < accept_index.shape[1]:
            following = child[node]
            while following != -1 and tokens[following] != wanted[path[-1]]:
                following = sibling[following]
            if following == -1:
                break
            node = following
            path.append(slots[node])
        for slot in path:
            predicts[slot] = wanted[slot]
        accept_index[request, : len(path)] = torch.tensor(path, dtype=accept_index.dtype)
        accept_token_num[request] = len(path) - 1
