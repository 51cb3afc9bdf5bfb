"""Recording a load: which tensor fed which parameter, on a model without torch."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from specdec.engine.plugin.load_record import LoadError, LoadRecord
from specdec.engine.plugin.refusal import RefusedError
from specdec.engine.plugin.strict_load import sentence, verdict

QKV = "model.layers.0.self_attn.qkv_proj.weight"
SHARDS: dict[str, tuple[Any, ...]] = {QKV: ("q", "k", "v")}


class Parameter:
    """As torch's: a thing that attributes can be put on."""


def _model(**config: Any) -> SimpleNamespace:
    defaults = {"hidden_size": 8, "vocab_size": 16, "draft_vocab_size": 16}
    return SimpleNamespace(config=SimpleNamespace(**defaults | config), hot_token_id=None)


def _load(checkpoint: dict[str, tuple[str, ...]], parameters: tuple[str, ...], model: Any = None) -> Any:
    """Load as SGLang does: each tensor goes to (parameter, *shard); an unknown parameter is dropped."""
    known = {name: Parameter() for name in parameters}
    record = LoadRecord(known, SHARDS)
    with record.wrapped(lambda *_: None):
        for name, (to, *shard) in record.watch(checkpoint.items()):
            if to in known:
                known[to].weight_loader(known[to], name, *shard)  # type: ignore[attr-defined]
    assert not any(vars(parameter) for parameter in known.values())
    return record.report(model or _model())


def test_a_whole_load_is_whole():
    checkpoint = {f"{part}_proj": (QKV, part) for part in "qkv"} | {"norm.weight": ("model.norm.weight",)}
    report = _load(checkpoint, (QKV, "model.norm.weight"))
    assert (report.fed, report.not_consumed, report.not_fed) == (2, (), ())
    assert verdict(report) == ""


def test_a_tensor_that_is_dropped_is_named():
    report = _load({"other.norm.weight": ("other.norm.weight",)}, ("model.norm.weight",))
    assert report.not_consumed == ("other.norm.weight",)
    assert report.not_fed == ("model.norm.weight",)
    assert verdict(report) == "TensorsNotConsumed"
    assert "other.norm.weight" in sentence(report)


def test_a_fused_parameter_needs_all_its_parts():
    report = _load({"q_proj": (QKV, "q"), "v_proj": (QKV, "v")}, (QKV,))
    assert report.not_fed == (f"{QKV} (k)",)
    assert verdict(report) == "ParametersNotFed"


def test_a_tensor_that_is_fused_already_feeds_all_parts():
    assert _load({"qkv_proj": (QKV,)}, (QKV,)).not_fed == ()


def test_the_embedding_may_be_absent_only_where_the_target_gives_its_own():
    name = "model.embed_tokens.weight"
    assert _load({}, (name,)).not_fed == ()
    assert _load({}, (name,), _model(target_hidden_size=16)).not_fed == (name,)


def test_allowed_names_carry_their_reason():
    report = _load({"t2d": ("t2d",)}, ())
    assert report.allowed == ("t2d: derived from d2t",)


def test_a_draft_vocabulary_needs_its_map():
    assert _load({}, (), _model(draft_vocab_size=8)).not_fed == ("d2t",)


def test_a_stumbling_loader_is_reported_with_the_tensor():
    parameter = Parameter()
    record = LoadRecord({"norm.weight": parameter}, {})

    def stumble(*_: Any) -> None:
        raise AssertionError("sizes differ")

    def load() -> None:
        with record.wrapped(stumble):
            for name, tensor in record.watch([("norm.weight", 1)]):
                parameter.weight_loader(parameter, tensor)  # type: ignore[attr-defined]
                raise AssertionError(name)

    with pytest.raises(LoadError, match=r"norm\.weight: sizes differ"):
        load()
    assert vars(parameter) == {}


@pytest.mark.parametrize(
    ("error", "reason", "named"),
    [
        (
            OSError(errno.EIO, "Input/output error", "/models/m/a.safetensors"),
            "NotReadable",
            "/models/m/a.saf",
        ),
        (OSError(errno.EIO, "Input/output error"), "NotReadable", "fc.weight"),
        (FileNotFoundError(errno.ENOENT, "No such file", "/models/m/a"), "FileMissing", "/models/m/a"),
        (
            RefusedError("FileTruncated", "a.safetensors ends inside fc.weight"),
            "FileTruncated",
            "ends inside",
        ),
        (ValueError("sizes differ"), "ShapeMismatch", "the drafter's tensor fc.weight: sizes differ"),
    ],
)
def test_what_a_volume_did_is_not_laid_at_the_tensors_door(error: Exception, reason: str, named: str):
    record = LoadRecord({}, {})

    def read() -> Iterator[tuple[str, int]]:
        yield "fc.weight", 1
        raise error

    with pytest.raises(LoadError) as caught, record.wrapped(print):
        list(record.watch(read()))
    refusal = caught.value.refused("ShapeMismatch")
    assert refusal.reason == reason
    assert named in refusal.message


def test_a_loader_behind_a_property_is_recorded_and_put_back():
    calls: list[Any] = []

    class Wrapped:
        def __init__(self) -> None:
            self._weight_loader = lambda *arguments: calls.append(arguments)

        @property
        def weight_loader(self) -> Any:
            return self._weight_loader

    parameter = Wrapped()
    own = parameter.weight_loader
    record = LoadRecord({"w": parameter}, {})
    with record.wrapped(lambda *_: None):
        for _, tensor in record.watch([("w", 1)]):
            parameter.weight_loader(parameter, tensor)
    assert calls == [(parameter, 1)]
    assert parameter.weight_loader is own
    assert record.report(_model()).not_consumed == ()
