"""Part of patch `swap`: every request carries the drafter that it was admitted under in its cache key.

Symptom: after a swap from a drafter with unfed weights to a good one, accept length stays 1.01, also for
prompts that only share first words with cached ones: SGLang's radix cache holds draft KV beside the target's
and knows nothing of drafters. Upstream: 0.5.17 to 0.5.23; `Req.extra_key` keeps namespaces apart.
In force: a prompt that was cached before a swap shows `cached_tokens` 0 after it.

The key names the commit's generation, not the revision alone: a request that ran through a swap leaves KV of
both drafters under its old key, which must not be found again after a swap back.
"""

from __future__ import annotations

from typing import Any

from specdec.engine.plugin.hooks import Hook
from specdec.engine.plugin.load import waiting
from specdec.engine.plugin.state import Engine, engine

SEPARATOR = "|specdec="


def stamp_request(original: Any, request: Any, *args: Any, **kwargs: Any) -> None:
    """Around Req.__init__."""
    original(request, *args, **kwargs)
    state = engine()
    request.specdec_generation = state.generation
    request.specdec_own_key = request.extra_key
    _rename(state, request)


def restamp_waiting(state: Engine) -> None:
    """After a commit: what waits has no KV in memory and will be prefilled under the new drafter."""
    scheduler = state.scheduler
    for request in waiting(scheduler):
        if request is scheduler.chunked_req:
            continue
        _rename(state, request)
        # A retracted request waits again, but its answer began under another drafter: it stays carried.
        if not request.output_ids:
            request.specdec_generation = state.generation


def _rename(state: Engine, request: Any) -> None:
    if state.drafts:
        own = request.specdec_own_key or ""
        request.extra_key = f"{own}{SEPARATOR}{state.revision}#{state.generation}"


def generation_of(request: Any) -> int:
    """Return the generation that a request was admitted under; -1 for one that SGLang made otherwise."""
    return getattr(request, "specdec_generation", -1)


HOOK = Hook("sglang.srt.managers.schedule_batch.Req.__init__", stamp_request, ("self", "rid", "extra_key"))
