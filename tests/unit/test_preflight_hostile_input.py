"""Folders that an enemy, a broken copy or a full disk made: each a finding, never a traceback."""

from __future__ import annotations

import contextlib
import json
import os
import struct
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from tests.support.headers import laid_out, llama, write_file
from tests.support.hostile import CASES, RAN, raw_file, two

from specdec.preflight.finding import Severity
from specdec.preflight.header import DRAFTER, read_header
from specdec.preflight.preflight import Request, preflight
from specdec.preflight.reading import read_drafter, read_target
from specdec.preflight.source import LocalFolder, UnreadableError


def blamed(folder) -> set[str]:
    return {finding.code for finding in read_drafter(LocalFolder(folder)).findings}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(llama().config))
    return tmp_path


class Watched(LocalFolder):
    """A folder that notes how far each file was read."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.read_to: dict[str, int] = {}

    def read(self, name: str, start: int, count: int) -> bytes:
        found = super().read(name, start, count)
        self.read_to[name] = max(self.read_to.get(name, 0), start + len(found))
        return found


def end_of_header(path: Path) -> int:
    with path.open("rb") as file:
        return 8 + int.from_bytes(file.read(8), "little")


@contextlib.contextmanager
def traced() -> Iterator[None]:
    """Count memory, and leave the tests that follow as fast as they were."""
    tracemalloc.start()
    try:
        yield
    finally:
        tracemalloc.stop()


def test_there_are_forty_cases_and_more():
    assert len(CASES) >= 40


@pytest.mark.parametrize("case", CASES)
def test_a_hostile_checkpoint_is_a_finding(tmp_path: Path, case: str):
    source = Watched(CASES[case].make(tmp_path / "drafter"))
    report = preflight(Request(source, None, "0.5.23")).report
    assert CASES[case].code in {finding.code for finding in report.blocking}
    for name, place in source.read_to.items():
        # What is read of weights is their header.
        assert not name.endswith(".safetensors") or place <= end_of_header(source.folder / name)
    text = json.dumps(report.to_json(), ensure_ascii=False)
    assert text.isprintable()
    assert len(text.encode()) < 20_000
    assert len(json.dumps(report.compact(), separators=(",", ":"))) <= 4096
    assert not (source.folder / RAN).exists()


@pytest.mark.parametrize("case", CASES)
def test_a_hostile_target_costs_as_little(tmp_path: Path, case: str):
    folder = CASES[case].make(tmp_path / "target")
    with traced():
        reading = read_target(LocalFolder(folder))
        peak = tracemalloc.get_traced_memory()[1]
    # Of a target no tensor is kept, so its names are not compared; and its code is trusted or not by a flag.
    drafters = {"TokenMapLengthWrong", "ParametersNotFed", "TensorRepeated", "RemoteCode"}
    assert reading.findings or CASES[case].code in drafters
    assert peak < 32 << 20


def test_tensors_may_be_listed_in_any_order(folder):
    header = dict(reversed(laid_out({"a": ("U8", [3]), "b": ("U8", [5])}).items()))
    raw_file(folder / "model.safetensors", json.dumps(header).encode(), bytes(8))
    assert blamed(folder) == set()


def test_a_header_of_100_mb_is_refused_at_once_and_in_constant_memory(folder):
    with (folder / "model.safetensors").open("wb") as file:
        file.write(struct.pack("<Q", 100_000_000) + b"{")
        file.truncate(200_000_000)
    with traced():
        begin = time.monotonic()
        assert blamed(folder) == {"HeaderTooLarge"}
        assert time.monotonic() - begin < 5
        assert tracemalloc.get_traced_memory()[1] < 1 << 20


@pytest.mark.parametrize("name", ["training_args.bin", "optimizer.pt", "notes"])
def test_what_nobody_loads_is_never_opened_and_raises_no_alarm(folder, name):
    os.mkfifo(folder / name)
    write_file(folder / "model.safetensors", {"w": ("F32", [2])})
    assert blamed(folder) == set()


def test_the_hubs_own_cache_may_link_to_its_blobs(tmp_path):
    snapshot, blobs = (
        tmp_path / "models--org--name" / "snapshots" / "abc",
        tmp_path / "models--org--name" / "blobs",
    )
    snapshot.mkdir(parents=True)
    blobs.mkdir()
    llama().write(blobs)
    for name in ("config.json", "model.safetensors"):
        (snapshot / name).symlink_to(blobs / name)
    assert blamed(snapshot) == set()


def test_a_file_without_permission_is_a_finding(folder, monkeypatch):
    write_file(folder / "model.safetensors", {"w": ("F32", [2])})
    # Root, as whom tests may run, reads everything: so the refusal is made here.
    monkeypatch.setattr("os.open", lambda *_, **__: (_ for _ in ()).throw(PermissionError(13, "denied")))
    assert blamed(folder) == {"NotReadable"}


def test_missing_and_empty_folders_are_findings(tmp_path):
    assert blamed(tmp_path / "nowhere") == {"FileMissing"}
    assert blamed(tmp_path) == {"ConfigMissing", "NoWeights"}


@pytest.mark.parametrize(
    ("placed", "found"),
    [
        ({"a.w": "a.safetensors", "b.w": "b.safetensors"}, set()),
        ({"a.w": "a.safetensors"}, {"ShardNotIndexed"}),
    ],
)
def test_an_index_that_tells_the_truth_passes_and_one_that_hides_a_file_is_a_warning(folder, placed, found):
    (two(folder) / "model.safetensors.index.json").write_text(json.dumps({"weight_map": placed}))
    for reading in (read_drafter(LocalFolder(folder)), read_target(LocalFolder(folder))):
        assert {finding.code for finding in reading.findings} == found
        assert all(finding.severity is Severity.WARNING for finding in reading.findings)


@pytest.mark.parametrize(
    "keys",
    [
        {"hidden_size": 10**4000, "intermediate_size": 10**4000},
        {"num_hidden_layers": 10**9, "vocab_size": 10**300, "draft_vocab_size": 10**299},
        {"eagle_config": {"eagle_aux_hidden_state_layer_ids": list(range(20_000))}},
        {"eagle_config": {"eagle_aux_hidden_state_layer_ids": [10**4000] * 3}},
        {"rope_scaling": {"factor": 10**4000}, "max_position_embeddings": 10**4000},
        {"architectures": ["\x1b[31mred\n" * 2000]},
        {f"key{index}": index for index in range(40_000)},
    ],
    ids=lambda keys: next(iter(keys)),
)
def test_huge_values_cost_no_time_and_no_long_report(folder, keys):
    llama().with_config(**keys).write(folder)
    begin = time.monotonic()
    report = preflight(Request(LocalFolder(folder), LocalFolder(folder), "0.5.23")).report
    text = json.dumps(report.to_json())
    assert time.monotonic() - begin < 5
    assert len(text) < 20_000
    assert "u001b" not in text


def test_a_file_that_shrinks_while_it_is_read_is_a_finding(folder):
    class Shrinking(LocalFolder):
        def read(self, name: str, start: int, count: int) -> bytes:
            return super().read(name, start, count)[: None if start <= 8 else 3]

    llama().write(folder)
    report = preflight(Request(Shrinking(folder), None, "0.5.23")).report
    assert report.blocking[0].code == "FileTruncated"


class Memory:
    """A folder without a disk, for fuzzing."""

    label = "memory"

    def __init__(self, content: bytes, config: bytes = b"{}") -> None:
        self.files = {"model.safetensors": content, "config.json": config}

    def sizes(self) -> dict[str, int]:
        return {name: len(content) for name, content in self.files.items()}

    def read(self, name: str, start: int, count: int) -> bytes:
        return self.files[name][start : start + count]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=True) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=12,
)
tensor_like = st.fixed_dictionaries({
    "dtype": st.sampled_from(["F32", "BF16", "I64", "F4", "bogus"]) | json_values,
    "shape": st.lists(st.integers(-2, 1 << 40), max_size=4) | json_values,
    "data_offsets": st.lists(st.integers(-2, 1 << 66), min_size=2, max_size=2) | json_values,
})  # fmt: skip


def judged_header(content: bytes) -> None:
    try:
        header = read_header(Memory(content), "model.safetensors", len(content), DRAFTER)
    except UnreadableError:
        return
    assert sum(entry.end - entry.start for entry in header.entries) <= len(content)


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(content):
    judged_header(content)


@settings(max_examples=200, deadline=None)
@given(st.dictionaries(st.text(max_size=12), tensor_like | json_values, max_size=5), st.binary(max_size=64))
def test_any_json_is_read_or_refused(header, data):
    raw = json.dumps(header).encode()
    judged_header(struct.pack("<Q", len(raw)) + raw + data)


KEYS = (
    *llama().config, "text_config", "quantization_config", "transformer_layer_config", "speculators_model_type",
    "sliding_window", "layer_types", "rope_scaling", "auto_map", "fc_norm",
)  # fmt: skip


@settings(max_examples=120, deadline=None, phases=(Phase.explicit, Phase.generate))
@given(st.dictionaries(st.sampled_from(KEYS), json_values, max_size=12))
def test_any_config_values_are_judged_without_a_traceback(keys):
    header = json.dumps(laid_out({"midlayer.fc.weight": ("F32", [2]), "d2t": ("I64", [1])})).encode()
    content = struct.pack("<Q", len(header)) + header + bytes(16)
    source = Memory(content, json.dumps(llama().config | keys).encode())
    for version in ("0.5.23", "0.5.11", "?"):
        report = preflight(Request(source, source, version)).report
        json.dumps(report.to_json())
