"""Patch `drafting`: the operator, not SGLang's acceptance rule, picks the number of draft steps; 0 is off.

Symptom: SGLang can't stop drafting at run time; with `--speculative-adaptive` it keeps one runtime state
(attention backends, CUDA graphs) per step count and switches between batches, but by its own rule.
Upstream: AdaptiveSpeculativeParams and AdaptiveController, 0.5.17 to 0.5.23; under attention data parallelism,
topk > 1, PDMux, two-batch overlap and non-EAGLE it is disabled with a log line only.
In force: `Report.states` is (0, N) and `Report.steps`, read from the worker, follows the order.
"""

from __future__ import annotations

from typing import Any

from specdec.engine.message import Drafting
from specdec.engine.plugin import admission, plain_decode
from specdec.engine.plugin.hooks import Hook, Patch
from specdec.engine.plugin.refusal import RefusedError, refuse_start
from specdec.engine.plugin.state import Engine, engine

_PARAMS = "sglang.srt.speculative.adaptive_spec_params.AdaptiveSpeculativeParams"


def wanted_steps(original: Any, params: Any, batch_size: int) -> int:
    """Around AdaptiveSpeculativeParams.get_steps_for_batch."""
    wanted = engine().wanted_steps
    return int(original(params, batch_size)) if wanted is None else wanted


def keep_steps(_original: Any, _params: Any, *_args: Any, **_kwargs: Any) -> None:
    """Around AdaptiveSpeculativeParams.on_verify_complete: acceptance changes nothing."""


def states(state: Engine) -> tuple[int, ...]:
    """Step counts that the engine can switch to."""
    controller = getattr(state.worker, "adaptive_controller", None)
    return () if controller is None else tuple(sorted(controller._states))  # noqa: SLF001 - no public reader


def steps_in_force(state: Engine) -> int:
    """Steps that the worker drafts with now."""
    return int(state.worker.speculative_num_steps) if state.drafts else 0


def start(state: Engine) -> None:
    """Check that both modes exist and set the one that the launch plan wants, before the first batch."""
    if not state.drafts:
        return
    most = steps_in_force(state)
    have = states(state)
    if 0 not in have or most not in have:
        refuse_start(
            state.settings.run_dir,
            "DraftingStatesMissing",
            f"the engine holds runtime states for steps {list(have)}, 0 and {most} are needed: SGLang "
            "disables --speculative-adaptive for some arguments with a log line only",
        )
    plain_decode.settle(state)
    _switch(state, most if state.settings.drafting is Drafting.ON else 0)


def set_steps(state: Engine, steps: int, *, warm: bool = False) -> None:
    """Draft with so many steps from the next batch on.

    Raises
    ------
    RefusedError
        The engine holds no runtime state for that.
    """
    have = states(state)
    if steps not in have:
        raise RefusedError(
            "NoSuchSteps", f"the engine holds runtime states for steps {list(have)}, not for {steps}"
        )
    state.warm = warm
    _switch(state, steps)


def _switch(state: Engine, steps: int) -> None:
    if steps and state.cold:
        # Draft KV has holes since: no request to come may find it.
        state.cold = False
        state.generation += 1
        admission.restamp_waiting(state)
    state.wanted_steps = steps
    # With a batch under way the switch waits for the next one, which makes it inside SGLang's own step;
    # an idle engine has none coming, and its report should not name the old mode.
    if state.scheduler.running_batch.is_empty() and state.scheduler.last_batch is None:
        state.worker.activate_step_by_batch(0)


PATCH = Patch(
    "drafting",
    (
        Hook(f"{_PARAMS}.get_steps_for_batch", wanted_steps, ("self", "batch_size")),
        Hook(f"{_PARAMS}.on_verify_complete", keep_steps, ("self",)),
    ),
)
