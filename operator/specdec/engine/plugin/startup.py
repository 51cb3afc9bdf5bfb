"""Patch `report`: when a scheduler is up, check that everything is in force, then open its report socket.

Symptom: a plugin that was not loaded, or only half, leaves a server that looks like any other.
Upstream: `load_plugins` in 0.5.11 to 0.5.23 logs failures and goes on.
In force: `RUN_DIR/scheduler-RANK.sock` answers, and its `patches` names all.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from specdec.engine.plugin import drafting, hooks, metrics, report
from specdec.engine.plugin.control import STAGES
from specdec.engine.plugin.hooks import Hook, Patch
from specdec.engine.plugin.refusal import RefusedError, refuse_start
from specdec.engine.plugin.state import Engine, engine

UNSUPPORTED = (
    ("disaggregation_mode", "null", "prefill and decode in different engines"),
    ("attn_dp_size", 1, "attention data parallelism"),
    ("enable_dp_attention", False, "attention data parallelism"),
    ("enable_lora", False, "LoRA adapters"),
    ("lora_paths", None, "LoRA adapters"),
    (
        "enable_hierarchical_cache",
        False,
        "the hierarchical cache, which keeps draft KV that no key of ours reaches",
    ),
    ("weight_cache_mode", "off", "a weight cache, which keeps weights in another process"),
)
"""Server argument, its value when it is not used, and what it is: beside a drafter none of them was tried with swaps
and switching. Not every SGLang version has all of them."""

log = logging.getLogger("specdec")


def around_start(patches: Callable[[], tuple[Patch, ...]]) -> Callable[..., None]:
    """Make the hook around Scheduler.__init__ that checks these patches."""

    def start(original: Any, scheduler: Any, *args: Any, **kwargs: Any) -> None:
        original(scheduler, *args, **kwargs)
        state = engine()
        state.scheduler = scheduler
        _check_parallelism(state)
        _check_supported(state)
        _check_patches(state, patches())
        _check_drafter(state)
        drafting.start(state)
        if getattr(scheduler.server_args, "enable_metrics", False):
            metrics.start(state.counters)
        report.serve(state, _rank(scheduler))
        log.info("in force: %s; revision %r", ", ".join(state.patches), state.revision)

    return start


def _check_parallelism(state: Engine) -> None:
    """Orders are voted on by tensor-parallel ranks only, and only rank 0's counters are read."""
    for argument in ("dp_size", "pp_size"):
        if getattr(state.scheduler.server_args, argument, 1) > 1:
            refuse_start(
                state.settings.run_dir,
                "Unsupported",
                f"--{argument.replace('_', '-')} above 1: one engine is one tensor-parallel group here",
            )


def _check_supported(state: Engine) -> None:
    """What a drafter can't be swapped or switched beside must not start with one: it would fail at the first rollout."""
    if not state.drafts:
        return
    for argument, unused, what in UNSUPPORTED:
        value = getattr(state.scheduler.server_args, argument, None)
        if value and value != unused:
            refuse_start(
                state.settings.run_dir,
                "NotBesideDrafter",
                f"{what} (--{argument.replace('_', '-')}) with a drafter is not supported: remove it from the image's profile",
            )


def _check_patches(state: Engine, patches: tuple[Patch, ...]) -> None:
    for patch in patches:
        if not hooks.in_force(patch):
            refuse_start(
                state.settings.run_dir,
                "PatchNotApplicable",
                f"patch {patch.name} was registered, but SGLang has not applied it",
            )
    state.patches = tuple(patch.name for patch in patches)


def _check_drafter(state: Engine) -> None:
    run_dir = state.settings.run_dir
    if not state.drafts:
        state.revision = ""
        return
    if state.load is None:
        refuse_start(run_dir, "Unsupported", "the drafter was loaded past SGLang's default loader, unchecked")
    try:
        STAGES.start(state)
    except RefusedError as error:
        refuse_start(run_dir, error.reason, error.message)


def _rank(scheduler: Any) -> int:
    import torch

    return int(torch.distributed.get_rank(scheduler.tp_cpu_group))


def patch(patches: Callable[[], tuple[Patch, ...]]) -> Patch:
    """Make the patch that checks the others and itself."""
    hook = Hook(
        "sglang.srt.managers.scheduler.Scheduler.__init__", around_start(patches), ("self", "server_args")
    )
    return Patch("report", (hook,))
