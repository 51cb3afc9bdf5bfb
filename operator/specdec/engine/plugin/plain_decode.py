"""Patch `plain_decode`: with drafting off the target decodes as a server without a drafter does.

Symptom: at 0 steps SGLang verifies a tree of one token and runs draft_extend: the verify attention kernel, all
hidden states captured, tree metadata made anew for each batch; on an H200 0.77x / 0.63x / 0.41x of a server
without speculative arguments at batch 1 / 8 / 32.
Upstream: `EAGLEWorkerV2.forward_batch_generation` at `speculative_num_steps == 0`, 0.5.17 to 0.5.23;
SGLANG_SPEC_SKIP_ZERO_STEP_DRAFT_EXTEND skips draft_extend only.
In force: `Report.plain` is true; where the target's decode path can't be prepared it is false, and said in the log.

The target's own decode path runs, with an attention backend and CUDA graphs of its own that were captured as
if there were no speculation. Draft KV of the tokens decoded so stays unwritten, so the way back to drafting is
a new generation (`admission`): no later request finds such KV, and requests in flight count as `carried`.
What needs the verify path (grammars, logprobs, hidden states, mamba, an order with `warm`) still takes it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from specdec.engine.plugin.hooks import Hook, Patch
from specdec.engine.plugin.state import Engine, engine
from specdec.engine.plugin.vote import all_agree

log = logging.getLogger("specdec")

_WORKER = "sglang.srt.speculative.eagle_worker_v2.EAGLEWorkerV2"
READ_DONE = ("war_fastpath_read_done_event", "shared_read_done_event")
"""Event of a model runner after which the scheduler may write shared buffers again; its name by version."""


@dataclass(frozen=True)
class Plain:
    """What the target decodes with while nothing is drafted."""

    backend: Any
    graphs: Any
    """None without CUDA graphs."""
    algorithm: Any
    """SGLang's word for no speculation."""


def prepare(original: Any, worker: Any, *args: Any, **kwargs: Any) -> Any:
    """Around EAGLEWorkerV2.init_cuda_graphs: after the states for 0 and N steps, one without speculation."""
    answer = original(worker, *args, **kwargs)
    worker.specdec_plain = None
    runner = worker.target_worker.model_runner
    if worker.adaptive_controller is None or worker.topk != 1 or getattr(runner, "is_hybrid_swa", False):
        return answer
    from sglang.srt.speculative.spec_info import SpeculativeAlgorithm

    try:
        # The start-up ladder may have left out large batches.
        sizes = worker.adaptive_controller.params.cuda_graph_bs_for_step(0)
        with worker._override_worker_state(0, 1, sizes):  # noqa: SLF001 - as SGLang builds its own states
            worker.specdec_plain = _make(runner, SpeculativeAlgorithm.NONE, sizes)
    except Exception:
        # Kernels of a path that this engine would never take otherwise may not fit the model.
        log.exception("no plain decoding: with drafting off SGLang verifies trees of one token")
    return answer


def _make(runner: Any, algorithm: Any, sizes: list[int] | None) -> Plain:
    held = runner.init_new_workspace
    try:
        backend = runner._get_attention_backend(init_new_workspace=True)  # noqa: SLF001 - as SGLang does
    finally:
        runner.init_new_workspace = held
    made, graphs = Plain(backend, None, algorithm), runner.decode_cuda_graph_runner
    if sizes == []:
        graphs = None
    if graphs is not None:
        with without_speculation(runner, made):
            graphs = type(graphs)(
                runner, attn_backend=backend, speculative_num_steps=0, speculative_num_draft_tokens=1
            )
    log.info("plain decoding is ready for drafting off, %s CUDA graphs", "with" if graphs else "without")
    return Plain(backend, graphs, algorithm)


def settle(state: Engine) -> None:
    """When the scheduler is up: all ranks decode plainly, or none does."""
    if not all_agree(state.scheduler, agreed=state.worker.specdec_plain is not None):
        state.worker.specdec_plain = None


def ready(state: Engine) -> bool:
    """Whether the target decodes plainly while nothing is drafted."""
    return getattr(state.worker, "specdec_plain", None) is not None


@contextmanager
def without_speculation(runner: Any, plain: Plain) -> Iterator[None]:
    """Let the target's runner be one of a server without a drafter, while this lasts."""
    held = runner.attn_backend, runner.decode_cuda_graph_runner, runner.spec_algorithm
    runner.attn_backend, runner.decode_cuda_graph_runner = plain.backend, plain.graphs
    runner.spec_algorithm = plain.algorithm
    try:
        yield
    finally:
        runner.attn_backend, runner.decode_cuda_graph_runner, runner.spec_algorithm = held


def generate(
    original: Any, worker: Any, batch: Any, on_publish: Any = None, *args: Any, **kwargs: Any
) -> Any:
    """Around EAGLEWorkerV2.forward_batch_generation."""
    # While 0 steps are neither wanted nor in force, SGLang's own call switches in time.
    if 0 in {engine().wanted_steps, worker.speculative_num_steps} and not (
        batch.forward_mode.is_extend() or batch.is_extend_in_batch
    ):
        worker.activate_step_by_batch(batch.seq_lens.shape[0])
        if worker.speculative_num_steps == 0 and _decodes_plainly(worker, batch):
            return _decode(worker, batch, on_publish)
    return original(worker, batch, on_publish, *args, **kwargs)


def _decodes_plainly(worker: Any, batch: Any) -> bool:
    return not (
        getattr(worker, "specdec_plain", None) is None
        or engine().warm
        or batch.forward_mode.is_idle()
        or batch.spec_info is None
        or batch.has_grammar
        or batch.return_logprob
        or batch.return_hidden_states
        or getattr(batch, "mamba_track_indices", None) is not None
        or getattr(batch, "hisparse_coordinator", None) is not None
    )


def _decode(worker: Any, batch: Any, on_publish: Any) -> Any:
    """One token for each request. The scheduler takes back what is changed in the batch here."""
    import torch

    runner, lengths = worker.target_worker.model_runner, batch.seq_lens
    with without_speculation(runner, worker.specdec_plain):
        forward = _forward_batch(worker, batch)
        result = worker.target_worker.forward_batch_generation(batch=None, forward_batch=forward)
    result.next_token_ids = result.next_token_ids.to(torch.int32)
    result.speculative_num_draft_tokens = 1
    result.accept_lens = torch.ones_like(result.next_token_ids)
    result.new_seq_lens = lengths + 1
    # The next batch looks at the token only, but SGLang's relay wants every field of a draft input.
    result.next_draft_input = type(batch.spec_info)(bonus_tokens=result.next_token_ids)
    if on_publish is not None:
        on_publish(result.new_seq_lens)
    worker._stub_skipped_draft_extend(batch, result)  # noqa: SLF001 - what SGLang does when it skips draft_extend
    result.extra_keep_alive_refs = [forward]
    _hand_over_read_done(runner, worker.draft_worker.draft_runner)
    engine().cold = True
    return result


def _forward_batch(worker: Any, batch: Any) -> Any:
    """Make the batch what a server without a drafter would run: the newest token at the next free place."""
    from sglang.srt.model_executor.forward_batch_info import CaptureHiddenMode, ForwardBatch, ForwardMode

    places = worker.req_to_token_pool.req_to_token[batch.req_pool_indices, batch.seq_lens]
    batch.input_ids, batch.out_cache_loc = batch.spec_info.bonus_tokens, places.to(batch.seq_lens.dtype)
    draft_input, batch.spec_info = batch.spec_info, None
    batch.forward_mode = ForwardMode.DECODE
    batch.seq_lens = batch.seq_lens + 1
    if batch.seq_lens_cpu is not None:
        batch.seq_lens_cpu = batch.seq_lens_cpu + 1
        batch.seq_lens_sum = int(batch.seq_lens_cpu.sum())
    forward = ForwardBatch.init_new(
        batch,
        worker.target_worker.model_runner,
        capture_hidden_mode=CaptureHiddenMode.NULL,
        return_hidden_states_before_norm=False,
    )
    forward.spec_algorithm = worker.specdec_plain.algorithm
    batch.spec_info = draft_input
    return forward


def _hand_over_read_done(target: Any, draft: Any) -> None:
    """Give the scheduler, which asks the drafter's runner, the event that the target's has left.

    Without it the scheduler waits for the whole forward pass, and prepares no batch beside it.
    """
    for name in READ_DONE:
        if hasattr(target, name):
            setattr(draft, name, getattr(target, name))
            setattr(target, name, None)


PATCH = Patch(
    "plain_decode",
    (
        Hook(f"{_WORKER}.init_cuda_graphs", prepare, ("self",)),
        Hook(f"{_WORKER}.forward_batch_generation", generate, ("self", "batch", "on_publish")),
    ),
)
