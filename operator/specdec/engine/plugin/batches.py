"""Patch `counters`: book every decode batch when its result is processed.

Symptom: SGLang's own figures are biased (tokens / verify calls reads 2.00 for a dead drafter on 2-token
answers), book a request at its finish to whichever drafter serves then, and its gauges stick when idle.
Upstream: SchedulerBatchResultProcessor in 0.5.17 to 0.5.23; `update_spec_metrics` counts overshoot and
retracted rows, so the rows are masked here as `_resolve_spec_v2_tokens` masks them.
In force: `Report.counters` rises with traffic.

The revision is stamped on a batch's result when it is launched: with overlap scheduling the worker may be
one batch on, and a swap may lie between, when the result is processed. Steps come from the result as well.
"""

from __future__ import annotations

import time
from typing import Any, NamedTuple

from specdec.engine.message import Source
from specdec.engine.plugin.admission import generation_of
from specdec.engine.plugin.counters import Drafted, Key, Tally
from specdec.engine.plugin.hooks import Hook, Patch
from specdec.engine.plugin.state import Engine, engine


class Stamp(NamedTuple):
    """Under which drafter a batch was launched, and when."""

    revision: str
    generation: int
    launched: float


_last_processed = 0.0


def stamp_result(original: Any, scheduler: Any, batch: Any, *args: Any, **kwargs: Any) -> Any:
    """Around Scheduler.run_batch."""
    state = engine()
    stamp = Stamp(state.revision, state.generation, time.perf_counter())
    result = original(scheduler, batch, *args, **kwargs)
    if result is not None:
        result.specdec_stamp = stamp
    return result


def count_result(original: Any, processor: Any, batch: Any, result: Any) -> Any:
    """Around SchedulerBatchResultProcessor.process_batch_result_decode."""
    if not processor.metrics_reporter.is_stats_logging_rank:
        return original(processor, batch, result)
    requests = batch.reqs
    before = [
        None if request.is_retracted or request.finished() else len(request.output_ids)
        for request in requests
    ]
    answer = original(processor, batch, result)
    _book(engine(), requests, before, result)
    return answer


def _book(state: Engine, requests: list[Any], before: list[int | None], result: Any) -> None:
    """Add a batch's rows; `before` has each one's tokens until now, None for a row that does not count."""
    stamp: Stamp = result.specdec_stamp
    steps = max(0, (result.speculative_num_draft_tokens or 1) - 1)
    correct = result.num_correct_drafts_per_req_cpu if steps else None
    tallies: dict[Source, tuple[Key, Tally]] = {}
    finished, booked = [], 0
    for place, (request, tokens) in enumerate(zip(requests, before, strict=True)):
        if tokens is None:
            continue
        booked += 1
        source = _source(state, stamp, request)
        if source not in tallies:
            tallies[source] = Key(stamp.revision, steps, source), Tally(steps)
        key, tally = tallies[source]
        drafts = min(correct[place], steps) if correct is not None else 0
        tally.add(drafts, _kept(request) - tokens)
        if steps:
            _remember(request, key, drafts)
        if request.finished():
            finished.append(request)
    seconds = _wall_seconds(stamp)
    with state.counters:
        for key, tally in tallies.values():
            state.counters.add_batch(key, tally, seconds, booked)
        for request in finished:
            state.counters.add_finished(getattr(request, "specdec_drafted", {}))


def _remember(request: Any, key: Key, drafts: int) -> None:
    """Sum up a request under each key that it runs under, until it finishes."""
    try:
        own = request.specdec_drafted[key]
    except (AttributeError, KeyError):
        own = Drafted()
        request.__dict__.setdefault("specdec_drafted", {})[key] = own
    own.calls += 1
    own.drafts += drafts


def _kept(request: Any) -> int:
    """Tokens of the answer, without what a verify call overshot its end."""
    if request.finished_len is not None:
        return min(request.finished_len, len(request.output_ids))
    return len(request.output_ids)


def _source(state: Engine, stamp: Stamp, request: Any) -> Source:
    if request.rid.startswith(state.settings.probe_prefix):
        return Source.PROBE
    return Source.TRAFFIC if generation_of(request) == stamp.generation else Source.CARRIED


def _wall_seconds(stamp: Stamp) -> float:
    """Wall time of this batch alone: with overlap it was launched before the last one was processed."""
    global _last_processed  # noqa: PLW0603 - one scheduler loop per process
    now = time.perf_counter()
    seconds = now - max(stamp.launched, _last_processed)
    _last_processed = now
    return seconds


PATCH = Patch(
    "counters",
    (
        Hook("sglang.srt.managers.scheduler.Scheduler.run_batch", stamp_result, ("self", "batch")),
        Hook(
            "sglang.srt.managers.scheduler_components.batch_result_processor"
            ".SchedulerBatchResultProcessor.process_batch_result_decode",
            count_result,
            ("self", "batch", "result"),
        ),
    ),
)
