"""Order `stage`: read a drafter into a shadow, in a thread, and check it whole.

Nothing that serves is touched, so any refusal leaves the serving drafter as it was.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specdec.engine.loopback import LoadReport
from specdec.engine.plugin import checkpoint, overlay, shadow
from specdec.engine.plugin.allowed import UNUSED_TENSORS
from specdec.engine.plugin.config_keys import differing_key, value_of
from specdec.engine.plugin.load_record import LoadError, LoadRecord, required_shards
from specdec.engine.plugin.refusal import RefusedError
from specdec.engine.plugin.serving import Serving
from specdec.engine.plugin.strict_load import sentence, verdict


@dataclass(frozen=True)
class Staged:
    """A drafter that is ready to be copied into the serving one."""

    revision: str
    buffer: Any
    """Host memory that the weights lie in."""
    weights: dict[str, Any]
    """By parameter name, without those that the target owns."""
    token_map: Any
    """On the CPU, or None."""
    load: LoadReport


def stage(serving: Serving, folder: Path, revision: str, buffer: Any) -> Staged:
    """Read a drafter into a buffer and check it.

    Raises
    ------
    RefusedError
        With the first thing that stands in the way.
    """
    _check_config(serving, checkpoint.read_config(folder))
    made = shadow.make(serving.model, serving.target_pointers, buffer)
    load = _fill(made, serving.model, folder)
    if reason := verdict(load):
        raise RefusedError(reason, sentence(load))
    weights = {name: clone.data for name, clone in made.clones.items() if name not in made.shared}
    _check_finite(weights)
    token_map = made.view.hot_token_id
    _check_token_map(serving, token_map)
    return Staged(revision, buffer, weights, token_map, load)


def _check_config(serving: Serving, config: dict[str, Any]) -> None:
    key = differing_key(serving.config, config)
    if key:
        raise RefusedError(
            "ConfigDiffers",
            f"config.json: {key} is {value_of(config, key)!r}, the serving drafter's is "
            f"{value_of(serving.config, key)!r}; SGLang reads it at the start only, so this needs a restart",
        )


def _fill(made: shadow.Shadow, model: Any, folder: Path) -> LoadReport:
    from sglang.srt.model_loader.weight_utils import default_weight_loader

    def exact(parameter: Any, tensor: Any, *shard: Any, **kwargs: Any) -> Any:
        return default_weight_loader(parameter, tensor, *shard, **kwargs)

    record = LoadRecord(made.clones, required_shards(model))
    dtypes = {clone.dtype for clone in made.clones.values()}
    try:
        with record.wrapped(exact):
            type(model).load_weights(made.view, record.watch(_of_dtypes(model, folder, dtypes)))
    except LoadError as error:
        raise error.refused("ShapeMismatch") from error
    return record.report(made.view)


def _of_dtypes(model: Any, folder: Path, dtypes: set[Any]) -> Any:
    """Yield the tensors; one of another type than the parameters would be rounded in silence."""
    for name, tensor in overlay.mended(folder, checkpoint.tensors(folder)):
        used = not any(rule.covers(model, name) for rule in UNUSED_TENSORS)
        if used and tensor.dtype not in dtypes:
            wanted = ", ".join(sorted(str(dtype) for dtype in dtypes))
            raise RefusedError(
                "DtypeDiffers", f"tensor {name} is {tensor.dtype}, the serving drafter's are {wanted}"
            )
        yield name, tensor


def _check_finite(weights: dict[str, Any]) -> None:
    """Both ends of each tensor are finite: NaN takes both, and this reads 20 times as fast as isfinite().all()."""
    import torch

    bad = [
        name
        for name, tensor in weights.items()
        if not torch.isfinite(torch.stack(torch.aminmax(tensor))).all()
    ]
    if bad:
        raise RefusedError("NotFinite", f"not finite, or not written whole: {', '.join(bad)}")


def _check_token_map(serving: Serving, token_map: Any) -> None:
    """The serving map is copied over in place, so both must be there or not, and of one length."""
    if (token_map is None) != (serving.token_map is None):
        has = "no d2t" if token_map is None else "a d2t"
        raise RefusedError("TokenMapDiffers", f"the drafter has {has}, unlike the serving one")
    if token_map is None:
        return
    if token_map.dtype.is_floating_point:
        raise RefusedError(
            "TokenMapDiffers", f"d2t is {token_map.dtype}, expected whole numbers: export it as int64"
        )
    if token_map.shape != serving.token_map.shape:
        raise RefusedError(
            "TokenMapDiffers",
            f"d2t has {token_map.numel()} entries, the serving drafter's {serving.token_map.numel()}",
        )
    low, high = int(token_map.min()), int(token_map.max())
    if low < 0 or high >= serving.vocabulary:
        raise RefusedError(
            "TokenMapOutOfRange",
            f"d2t names target tokens {low} to {high}, the target has 0 to {serving.vocabulary - 1}",
        )
