"""User requests that a scheduler holds now."""

from __future__ import annotations

from typing import Any

from specdec.engine.plugin.state import Engine

HEALTH_CHECK = "HEALTH_CHECK"
"""SGLang's own requests behind /health begin so."""


def waiting(scheduler: Any) -> list[Any]:
    """List the requests that wait to be prefilled, those whose grammar is still being compiled among them."""
    return [*scheduler.waiting_queue, *scheduler.grammar_manager.grammar_queue]


def in_flight(state: Engine) -> int:
    """Count users' requests, running or waiting."""
    scheduler = state.scheduler
    own = (state.settings.probe_prefix, HEALTH_CHECK)
    requests: dict[str, Any] = {request.rid: request for request in waiting(scheduler)}
    for batch in (scheduler.running_batch, scheduler.last_batch):
        if batch is not None:
            requests |= {request.rid: request for request in list(batch.reqs or ())}
    if scheduler.chunked_req is not None:
        requests[scheduler.chunked_req.rid] = scheduler.chunked_req
    return sum(1 for rid, request in requests.items() if not rid.startswith(own) and not request.finished())
