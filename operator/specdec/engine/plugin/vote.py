"""Votes of all tensor-parallel ranks: a rank that went alone would hang the others."""

from __future__ import annotations

from typing import Any


def all_agree(scheduler: Any, *, agreed: bool) -> bool:
    """Whether every rank agrees; each calls it at the same point."""
    import torch

    group = scheduler.tp_cpu_group
    if torch.distributed.get_world_size(group) == 1:
        return agreed
    vote = torch.tensor([int(agreed)])
    torch.distributed.all_reduce(vote, op=torch.distributed.ReduceOp.MIN, group=group)
    return bool(vote.item())
