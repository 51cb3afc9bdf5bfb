"""Which patches belong into which process of SGLang, and their registration."""

from __future__ import annotations

import logging
import multiprocessing
import sys

from specdec.engine.plugin import hooks, state
from specdec.engine.plugin.hooks import Patch, PatchNotApplicableError
from specdec.engine.plugin.refusal import refuse_start
from specdec.engine.plugin.settings import Settings

log = logging.getLogger("specdec")


def register(settings: Settings) -> None:
    """Register this process's patches.

    Raises
    ------
    SystemExit
        One of them does not fit.
    """
    state.install(settings)
    if len(str(settings.run_dir)) > 80:
        refuse_start(settings.run_dir, "Unsupported", f"{settings.run_dir} is too long for a Unix socket")
    try:
        hooks.register(patches_of_process())
    except PatchNotApplicableError as error:
        import sglang

        refuse_start(settings.run_dir, "PatchNotApplicable", f"SGLang {sglang.__version__}: {error}")


def patches_of_process() -> tuple[Patch, ...]:
    """Tell the launcher, which serves HTTP, the schedulers and the others apart.

    SGLang spawns its processes, so a child has imported the module of its main function before plugins load.
    """
    if multiprocessing.parent_process() is None:
        from specdec.engine.plugin import routes

        return (routes.PATCH,)
    if "sglang.srt.managers.scheduler" in sys.modules:
        return scheduler_patches()
    return ()


def scheduler_patches() -> tuple[Patch, ...]:
    """Patches of a scheduler process, with or without a drafter."""
    from specdec.engine.plugin import (
        batches,
        control,
        drafting,
        embedding_capture,
        norm_before_residual,
        overlay,
        plain_decode,
        startup,
        strict_load,
        swap,
    )

    return (
        strict_load.PATCH,
        overlay.PATCH,
        embedding_capture.PATCH,
        norm_before_residual.PATCH,
        swap.PATCH,
        drafting.PATCH,
        plain_decode.PATCH,
        control.PATCH,
        batches.PATCH,
        startup.patch(scheduler_patches),
    )
