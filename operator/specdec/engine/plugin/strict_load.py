"""Patch `strict_load`: a drafter loads whole, or the engine does not start.

Symptom: SGLang drops tensors whose names it does not know and leaves parameters without a tensor as memory
held them, both without a word; such a drafter serves at accept length 1.00 for days.
Upstream: `LlamaForCausalLMEagle3.load_weights` in all versions to 0.5.23 (sgl-project/sglang issue 27829).
In force: `RUN_DIR/load-report.json` exists and `Report.load.fed` is above 0.

It runs before any request: unfed memory could put NaN into draft KV.
"""

from __future__ import annotations

from typing import Any

from specdec.engine.loopback import LoadReport, StartReport
from specdec.engine.plugin.hooks import Hook, Patch
from specdec.engine.plugin.load_record import LoadError, LoadRecord, required_shards
from specdec.engine.plugin.refusal import refuse_start, write_start_report
from specdec.engine.plugin.state import engine

NAMES_SHOWN = 8

_loading_drafter = False


def note_model(original: Any, loader: Any, *, model_config: Any, **kwargs: Any) -> Any:
    """Around DefaultModelLoader.load_model: the next load is the drafter's or the target's."""
    global _loading_drafter  # noqa: PLW0603 - SGLang loads one model after the other, on one thread
    _loading_drafter = bool(model_config.is_draft_model)
    try:
        return original(loader, model_config=model_config, **kwargs)
    finally:
        _loading_drafter = False


def load_strictly(original: Any, model: Any, weights: Any, target_device: Any) -> Any:
    """Around DefaultModelLoader.load_weights_and_postprocess."""
    if not _loading_drafter:
        return original(model, weights, target_device)
    from sglang.srt.model_loader.weight_utils import default_weight_loader

    state = engine()
    run_dir = state.settings.run_dir
    record = LoadRecord(dict(model.named_parameters()), required_shards(model))
    # A map left from an earlier load would hide that this checkpoint has none.
    model.hot_token_id = None
    own = model.load_weights

    def recorded(tensors: Any) -> Any:
        with record.wrapped(default_weight_loader):
            return own(record.watch(tensors))

    model.load_weights = recorded
    try:
        answer = original(model, weights, target_device)
    except LoadError as error:
        refusal = error.refused("LoadFailed")
        refuse_start(run_dir, refusal.reason, refusal.message)
    finally:
        del model.load_weights
    state.load = record.report(model)
    if reason := verdict(state.load):
        refuse_start(run_dir, reason, sentence(state.load), state.load)
    write_start_report(run_dir, StartReport(load=state.load))
    return answer


def verdict(load: LoadReport) -> str:
    """Reason to refuse a load; empty if it is whole."""
    if load.not_consumed:
        return "TensorsNotConsumed"
    return "ParametersNotFed" if load.not_fed else ""


def sentence(load: LoadReport) -> str:
    """Say what a load lacks, with names."""
    parts = []
    if load.not_consumed:
        parts.append(
            f"{len(load.not_consumed)} tensors have names that SGLang drops: {_some(load.not_consumed)}"
        )
    if load.not_fed:
        parts.append(f"{len(load.not_fed)} parameters get no tensor: {_some(load.not_fed)}")
    return "; ".join(parts)


def _some(names: tuple[str, ...]) -> str:
    shown = ", ".join(names[:NAMES_SHOWN])
    return shown if len(names) <= NAMES_SHOWN else f"{shown} and {len(names) - NAMES_SHOWN} more"


_LOADER = "sglang.srt.model_loader.loader.DefaultModelLoader"

PATCH = Patch(
    "strict_load",
    (
        Hook(f"{_LOADER}.load_model", note_model, ("self", "model_config")),
        Hook(
            f"{_LOADER}.load_weights_and_postprocess",
            load_strictly,
            ("model", "weights", "target_device"),
        ),
    ),
)
