"""Folders that an enemy, a broken copy or a full disk made: each a finding, never a traceback."""

from __future__ import annotations

import json
import struct
import time
import tracemalloc

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from tests.support.headers import laid_out, llama, write_file

from specdec.preflight.header import DRAFTER, read_header
from specdec.preflight.preflight import Request, preflight
from specdec.preflight.reading import read_drafter, read_target
from specdec.preflight.source import LocalFolder, UnreadableError


def raw_file(path, header: bytes, data: bytes = b"", length: int | None = None):
    path.write_bytes(struct.pack("<Q", len(header) if length is None else length) + header + data)


def blamed(folder) -> set[str]:
    return {finding.code for finding in read_drafter(LocalFolder(folder)).findings}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(llama().config))
    return tmp_path


ONE = {"w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}
HEADERS = {
    "HeaderMalformed": [
        b"not json", b"[1]", b"{}x", b'{"w":1}', b'{"w":{"dtype":"F32"}}', b"\xff\xfe{}", b'{"w":' + b"[" * 90000,
        b'{"w":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}}',
        b'{"w":{"dtype":"F32","shape":[2.0],"data_offsets":[0,8]}}',
        b'{"w":{"dtype":"F32","shape":[2],"data_offsets":[-8,0]}}',
        b'{"w":{"dtype":"F32","shape":[2],"data_offsets":[0,' + b"9" * 5000 + b"]}}",
        b'{"w":{"dtype":"F32","shape":[true],"data_offsets":[0,8]}}',
    ],
    "TensorRepeated": [b'{"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"w":{}}'],
    "DtypeUnknown": [b'{"w":{"dtype":"PICKLE","shape":[2],"data_offsets":[0,8]}}'],
    "TensorOutOfBounds": [b'{"w":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}}'],
    "FileTruncated": [b'{"w":{"dtype":"F32","shape":[99],"data_offsets":[0,396]}}'],
    "TensorSizeWrong": [b'{"w":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}}'],
    "TensorsMisplaced": [
        b'{"a":{"dtype":"U8","shape":[6],"data_offsets":[0,6]},"b":{"dtype":"U8","shape":[4],"data_offsets":[4,8]}}',
        b'{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[4],"data_offsets":[4,8]}}',
        b'{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}',
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    ("code", "header"), [(code, raw) for code, list_ in HEADERS.items() for raw in list_]
)
def test_a_malformed_header_is_a_finding(folder, code, header):
    raw_file(folder / "model.safetensors", header, bytes(8))
    assert blamed(folder) == {code}


def test_tensors_may_be_listed_in_any_order(folder):
    header = dict(reversed(laid_out({"a": ("U8", [3]), "b": ("U8", [5])}).items()))
    raw_file(folder / "model.safetensors", json.dumps(header).encode(), bytes(8))
    assert blamed(folder) == set()


@pytest.mark.parametrize("length", [0, 1, 1 << 20, (1 << 64) - 1])
def test_a_header_longer_than_the_file_is_a_finding(folder, length):
    raw_file(folder / "model.safetensors", b"{}", length=length)
    assert blamed(folder) == {"HeaderMalformed"}


@pytest.mark.parametrize("size", [0, 7])
def test_a_file_without_room_for_a_header_is_a_finding(folder, size):
    (folder / "model.safetensors").write_bytes(bytes(size))
    assert blamed(folder) == {"HeaderMalformed"}


def test_a_header_of_100_mb_is_refused_at_once_and_in_constant_memory(folder):
    with (folder / "model.safetensors").open("wb") as file:
        file.write(struct.pack("<Q", 100_000_000) + b"{")
        file.truncate(200_000_000)
    tracemalloc.start()
    begin = time.monotonic()
    assert blamed(folder) == {"HeaderTooLarge"}
    assert time.monotonic() - begin < 5
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()


def test_a_header_of_a_million_empty_objects_is_refused_before_it_is_parsed(folder):
    raw_file(folder / "model.safetensors", b"{" + b'"":{},' * 500_000 + b'"z":{}}')
    assert blamed(folder) == {"HeaderTooLarge"}


def test_pickles_are_named_and_never_opened(folder, monkeypatch):
    (folder / "pytorch_model.bin").write_bytes(b"\x80\x04c__builtin__\nexit\n.")
    reading = read_drafter(LocalFolder(folder))
    assert [finding.code for finding in reading.findings] == ["PickleOnly"]


def test_a_link_out_of_the_folder_is_a_finding(folder, tmp_path_factory):
    elsewhere = write_file(tmp_path_factory.mktemp("elsewhere") / "secret.safetensors", {"w": ("F32", [2])})
    (folder / "model.safetensors").symlink_to(elsewhere)
    assert blamed(folder) == {"LinkOutsideFolder"}


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


def test_a_dangling_link_and_a_folder_named_as_weights_are_no_weights(folder):
    (folder / "model.safetensors").symlink_to(folder / "gone")
    (folder / "other.safetensors").mkdir()
    assert blamed(folder) == {"NoWeights"}


def test_a_file_without_permission_is_a_finding(folder, monkeypatch):
    write_file(folder / "model.safetensors", {"w": ("F32", [2])})
    # Root, as whom tests may run, reads everything: so the refusal is made here.
    monkeypatch.setattr("os.open", lambda *_, **__: (_ for _ in ()).throw(PermissionError(13, "denied")))
    assert blamed(folder) == {"NotReadable"}


def test_missing_folder_empty_folder_and_missing_config_are_findings(tmp_path):
    assert blamed(tmp_path / "nowhere") == {"FileMissing"}
    assert blamed(tmp_path) == {"ConfigMissing", "NoWeights"}


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"{", "ConfigMalformed"), (b"[]", "ConfigMalformed"), (b"\xff", "ConfigMalformed"),
        (b'{"a":1,"a":2}', "ConfigMalformed"), (b"[" * 100_000, "ConfigTooLarge"), (b" " * (2 << 20), "ConfigTooLarge"),
        (b'{"auto_map":{"AutoModel":"x.Y"}}', "RemoteCode"),
    ],
)  # fmt: skip
def test_a_hostile_config_is_a_finding(tmp_path, content, code):
    write_file(tmp_path / "model.safetensors", {"w": ("F32", [2])})
    (tmp_path / "config.json").write_bytes(content)
    assert code in blamed(tmp_path)


def sharded(folder, placed, files=("a.safetensors", "b.safetensors")):
    for file in files:
        write_file(folder / file, {f"{file[0]}.w": ("F32", [2])})
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": placed}))
    return folder


@pytest.mark.parametrize(
    ("placed", "code"),
    [
        ({"a.w": "a.safetensors", "b.w": "b.safetensors"}, None),
        ({"a.w": "a.safetensors", "b.w": "b.safetensors", "c.w": "c.safetensors"}, "ShardMissing"),
        ({"a.w": "a.safetensors"}, "ShardNotIndexed"),
        ({"a.w": "a.safetensors", "x.w": "b.safetensors"}, "IndexWrong"),
        ({"a.w": "a.safetensors", "b.w": "../../etc/passwd"}, "LinkOutsideFolder"),
        ({"a.w": 7}, "IndexMalformed"),
        ([], "IndexMalformed"),
    ],
)
def test_an_index_must_tell_the_truth(folder, placed, code):
    for findings in (read_drafter(LocalFolder(sharded(folder, placed))), read_target(LocalFolder(folder))):
        found = {finding.code for finding in findings.findings}
        assert found == set() if code is None else code in found


def test_an_index_that_nests_without_end_is_refused_before_it_is_parsed(folder):
    write_file(folder / "a.safetensors", {"w": ("F32", [2])})
    (folder / "model.safetensors.index.json").write_bytes(b'{"weight_map":' + b"[" * 1_000_000)
    assert blamed(folder) == {"IndexTooLarge"}


def test_one_tensor_in_two_files_is_a_finding(folder):
    write_file(folder / "a.safetensors", {"w": ("F32", [2])})
    write_file(folder / "b.safetensors", {"w": ("F32", [2])})
    assert blamed(folder) == {"TensorRepeated"}


def test_control_characters_of_a_hostile_name_do_not_reach_the_report(folder):
    write_file(folder / "model.safetensors", {"\x1b[2Jfc.weight\n" + "x" * 9000: ("F32", [2])})
    report = preflight(Request(LocalFolder(folder), None, "0.5.23")).report
    text = json.dumps(report.to_json(), ensure_ascii=False)
    assert "\x1b" not in text
    assert len(text) < 20_000
    assert len(report.compact()) <= 4096


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
