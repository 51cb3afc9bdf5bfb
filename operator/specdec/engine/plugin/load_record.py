"""Which tensor fed which parameter while a draft model's own `load_weights` runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from specdec.engine.loopback import LoadReport
from specdec.engine.plugin.allowed import FUSED, UNFED_PARAMETERS, UNUSED_TENSORS, Allowed
from specdec.engine.plugin.checkpoint import lost
from specdec.engine.plugin.refusal import RefusedError

Parameters = dict[str, Any]


class LoadError(Exception):
    """The model's own loader stumbled over a tensor."""

    def __init__(self, tensor: str, cause: BaseException) -> None:
        super().__init__(f"{tensor}: {cause}" if tensor else str(cause))
        self.tensor = tensor

    def refused(self, otherwise: str) -> RefusedError:
        """What stands in the way: what reading found, the volume, or else the tensor, for that reason."""
        match self.__cause__:
            case RefusedError() as found:
                return found
            case OSError() as error:
                return lost(Path(error.filename or self.tensor), error)
            case _:
                return RefusedError(otherwise, f"the drafter's tensor {self}")


class LoadRecord:
    """Names that came from the checkpoint, and (parameter, shard) pairs that were fed."""

    def __init__(self, parameters: Parameters, shards: dict[str, tuple[Any, ...]]) -> None:
        self._parameters = parameters
        self._shards = shards
        self._seen: list[str] = []
        self._consumed: set[str] = set()
        self._fed: dict[str, set[Any]] = {}
        self._current = ""

    def watch(self, weights: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
        """Pass the tensors on and remember which one is being loaded."""
        for name, tensor in weights:
            self._current = name
            self._seen.append(name)
            yield name, tensor

    @contextmanager
    def wrapped(self, default: Callable[..., Any]) -> Iterator[None]:
        """Record every parameter's weight_loader, `default` where it has none, while this lasts."""
        undo = [
            _wrap(parameter, self._recorder(name), default) for name, parameter in self._parameters.items()
        ]
        try:
            yield
        except Exception as error:
            raise LoadError(self._current, error) from error
        finally:
            for put_back in undo:
                put_back()

    def report(self, model: Any) -> LoadReport:
        """What was not consumed and not fed, and what may be so."""
        allowed: list[str] = []
        not_consumed = [
            name
            for name in self._seen
            if name not in self._consumed
            and not self._fed_as_part(name)
            and not _excused(model, name, UNUSED_TENSORS, allowed)
        ]
        not_fed = [
            missing
            for name in self._parameters
            for missing in self._missing(name)
            if not _excused(model, name, UNFED_PARAMETERS, allowed)
        ]
        if _needs_token_map(model) and getattr(model, "hot_token_id", None) is None:
            not_fed.append("d2t")
        return LoadReport(
            fed=len(self._fed),
            tensors=len(self._seen),
            consumed=sum(name in self._consumed or self._fed_as_part(name) for name in self._seen),
            not_consumed=tuple(not_consumed),
            not_fed=tuple(not_fed),
            allowed=tuple(allowed),
        )

    def _recorder(self, name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        def around(original: Callable[..., Any]) -> Callable[..., Any]:
            def load(parameter: Any, tensor: Any, *shard: Any, **kwargs: Any) -> Any:
                answer = original(parameter, tensor, *shard, **kwargs)
                self._consumed.add(self._current)
                key = shard[0] if shard else kwargs.get("loaded_shard_id", kwargs.get("shard_id"))
                self._fed.setdefault(name, set()).add(key)
                return answer

            return load

        return around

    def _missing(self, name: str) -> list[str]:
        fed = self._fed.get(name, set())
        # A checkpoint may hold the shards in one tensor; the loader then gets no shard.
        if None in fed:
            return []
        shards = self._shards.get(name)
        if shards is None:
            return [] if fed else [name]
        missing = [str(shard) for shard in shards if shard not in fed]
        if not missing:
            return []
        return [name if not fed else f"{name} ({', '.join(missing)})"]

    def _fed_as_part(self, tensor: str) -> bool:
        return any(part in tensor and any(whole in name for name in self._fed) for part, whole in FUSED)


def required_shards(model: Any) -> dict[str, tuple[Any, ...]]:
    """Shards that a fused layer's parameters need, by parameter name."""
    shards: dict[str, tuple[Any, ...]] = {}
    for prefix, module in model.named_modules():
        kinds = {kind.__name__ for kind in type(module).__mro__}
        needed: tuple[Any, ...]
        if "QKVParallelLinear" in kinds:
            needed = ("q", "k", "v")
        elif "MergedColumnParallelLinear" in kinds:
            needed = tuple(range(len(module.output_sizes)))
        else:
            continue
        for name, _ in module.named_parameters(recurse=False):
            shards[f"{prefix}.{name}"] = needed
    return shards


def _needs_token_map(model: Any) -> bool:
    config = model.config
    draft = getattr(config, "draft_vocab_size", None)
    return draft is not None and draft != config.vocab_size


def _excused(model: Any, name: str, rules: tuple[Allowed, ...], allowed: list[str]) -> bool:
    for rule in rules:
        if rule.covers(model, name):
            allowed.append(f"{name}: {rule.reason}")
            return True
    return False


def _wrap(
    parameter: Any, recorder: Callable[[Callable[..., Any]], Callable[..., Any]], default: Callable[..., Any]
) -> Callable[[], None]:
    """Put a recorder around a parameter's loader; returns what undoes it."""
    # SGLang's own parameter classes keep it in a private attribute behind a read-only property.
    attribute = "_weight_loader" if hasattr(parameter, "_weight_loader") else "weight_loader"
    own = getattr(parameter, attribute, None)
    setattr(parameter, attribute, recorder(own or default))
    if own is None:
        return lambda: delattr(parameter, attribute)
    return lambda: setattr(parameter, attribute, own)
