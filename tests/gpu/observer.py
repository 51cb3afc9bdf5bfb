"""A plugin of SGLang's for the lane alone: it weighs what each capture takes, or makes a capture hang.

It does nothing unless one of the two variables is set. SGLang finds it as it finds ours, by an entry point.
"""

from __future__ import annotations

import json
import logging
import multiprocessing
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

HANG_ABOVE = "SPECDEC_LANE_HANG_ABOVE"
"""Environment variable: decode graphs of a larger batch than this are never captured: the start hangs."""
WEIGH_INTO = "SPECDEC_LANE_WEIGH_INTO"
"""Environment variable: file that a line of JSON is added to for each thing weighed."""

WORKER = "sglang.srt.speculative.eagle_worker_v2"
GRAPHS = "sglang.srt.model_executor.runner.decode_cuda_graph_runner.DecodeCudaGraphRunner"
WEIGHED = {
    "target and draft KV": f"{WORKER}.EAGLEWorkerV2.alloc_memory_pool",
    "draft KV": f"{WORKER}.EagleDraftWorker.alloc_memory_pool",
    "attention backend of the target": "sglang.srt.model_executor.model_runner.ModelRunner._get_attention_backend",
    "graphs of the target": f"{GRAPHS}.__init__",
    "attention backend of the drafter": f"{WORKER}.EagleDraftWorker.init_attention_backend",
    "graphs of the drafter": f"{WORKER}.EagleDraftWorker._capture_cuda_graphs",
    "state of 0 steps": f"{WORKER}.EAGLEWorkerV2.build_adaptive_runtime_state",
    "plain decoding": "specdec.engine.plugin.plain_decode._make",
}
"""What is weighed, by the function that makes it; some lie within others (`depth`)."""

_depth = 0


def register() -> None:
    """Hook into a scheduler's process; called by SGLang."""
    if multiprocessing.parent_process() is None or "sglang.srt.managers.scheduler" not in sys.modules:
        return
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType

    if os.environ.get(HANG_ABOVE):
        HookRegistry.register(f"{GRAPHS}.capture", _hang, HookType.AROUND)
    if os.environ.get(WEIGH_INTO):
        for what, target in WEIGHED.items():
            HookRegistry.register(target, _weigher(what), HookType.AROUND)


def _hang(original: Any, runner: Any, *args: Any, **kwargs: Any) -> Any:
    if max(runner.capture_bs) <= int(os.environ[HANG_ABOVE]):
        return original(runner, *args, **kwargs)
    logging.getLogger("specdec").warning("this capture hangs on purpose: batch %d", max(runner.capture_bs))
    threading.Event().wait()
    return None


def _weigher(what: str) -> Any:
    def around(original: Any, *args: Any, **kwargs: Any) -> Any:
        global _depth  # noqa: PLW0603 - what lies within what
        before, began = _weigh(), time.perf_counter()
        _depth += 1
        try:
            return original(*args, **kwargs)
        finally:
            _depth -= 1
            entry = {"what": what, "depth": _depth, "seconds": time.perf_counter() - began}
            with Path(os.environ[WEIGH_INTO]).open("a") as file:
                file.write(json.dumps(entry | {"before": before, "after": _weigh()}) + "\n")

    return around


def _weigh() -> dict[str, int]:
    """Bytes of this process's GPU: used of the whole device, and what PyTorch holds of it."""
    import torch

    torch.cuda.synchronize()
    free, total = torch.cuda.mem_get_info()
    return {
        "device": total - free,
        "reserved": torch.cuda.memory_reserved(),
        "allocated": torch.cuda.memory_allocated(),
    }
