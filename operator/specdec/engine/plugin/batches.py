"""Patch `counters`: book every decode batch when its result is processed.

Symptom: SGLang's own figures are biased (tokens / verify calls reads 2.00 for a dead drafter on 2-token
answers), book a request at its finish to whichever drafter serves then, and its gauges stick when idle.
Upstream: SchedulerBatchResultProcessor in 0.5.17 to 0.5.23; `update_spec_metrics` counts overshoot and
retracted rows, so the rows are masked here as `_resolve_spec_v2_tokens` masks them.
In force: `Report.counters` rises with traffic; `specdec_verify_calls_total` appears in /metrics.

The revision is stamped on a batch's result when it is launched: with overlap scheduling the worker may be
one batch on, and a swap may lie between, when the result is processed. Steps come from the result as well.
"""

from __future__ import annotations

import time
from typing import Any, NamedTuple

from specdec.engine.plugin import metrics
from specdec.engine.plugin.admission import generation_of
from specdec.engine.plugin.counters import Drafted, Key, Tally
from specdec.engine.plugin.hooks import Hook, Patch
from specdec.engine.plugin.state import Engine, engine
from specdec.engine.protocol import Source


class Stamp(NamedTuple):
    """Under which drafter a batch was launched, and when."""

    revision: str
    generation: int
    launched: float


class Row(NamedTuple):
    """One request of a batch as it was before its result was processed."""

    request: Any
    tokens: int
    place: int


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
    rows = [
        Row(request, len(request.output_ids), place)
        for place, request in enumerate(batch.reqs)
        if not (request.is_retracted or request.finished())
    ]
    answer = original(processor, batch, result)
    _book(engine(), rows, result)
    return answer


def _book(state: Engine, rows: list[Row], result: Any) -> None:
    stamp: Stamp = result.specdec_stamp
    steps = max(0, (result.speculative_num_draft_tokens or 1) - 1)
    correct = result.num_correct_drafts_per_req_cpu if steps else None
    seconds = _wall_seconds(stamp)
    tallies = {source: (Key(stamp.revision, steps, source), Tally(steps)) for source in Source}
    finished = []
    for request, before, place in rows:
        key, tally = tallies[_source(state, stamp, request)]
        drafts = min(correct[place], steps) if correct is not None else 0
        tally.add(drafts, _kept(request) - before)
        if steps:
            _remember(request, key, drafts)
        if request.finished():
            finished.append(request)
    with state.counters:
        for key, tally in tallies.values():
            if tally.rows:
                state.counters.add_batch(key, tally, seconds, len(rows))
        for request in finished:
            state.counters.add_finished(getattr(request, "specdec_drafted", {}))
    for key, tally in tallies.values():
        if tally.rows:
            metrics.add(key, tally)


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
