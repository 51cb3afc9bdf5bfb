"""The index is read name by name, and means what a JSON parser makes of it."""

from __future__ import annotations

import json
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specdec.preflight.index import INDEX, Index, read_index
from specdec.preflight.source import UnreadableError


class Bytes:
    """A folder whose one file holds this."""

    label = "memory"

    def __init__(self, content: bytes) -> None:
        self.content = content

    def sizes(self) -> dict[str, int]:
        return {INDEX: len(self.content)}

    def read(self, name: str, start: int, count: int) -> bytes:
        return self.content[start : start + count]


def index(content: bytes | str) -> Index:
    raw = content.encode() if isinstance(content, str) else content
    return read_index(Bytes(raw), INDEX, len(raw))


ODD = st.sampled_from(['"weight_map": {', "{", "}", '"', "\\", ",", "a.b", "\u2028", "é"])
TEXTS = st.one_of(st.text(max_size=8), st.lists(ODD, max_size=3).map("".join))


@given(
    st.dictionaries(TEXTS, TEXTS, max_size=6),
    st.dictionaries(TEXTS, TEXTS, max_size=2),
    st.sampled_from([None, 0, 2]),
    st.booleans(),
    st.booleans(),
)
def test_it_says_what_a_json_parser_says(placed, others, indent, ascii_only, first):
    rest = {key: value for key, value in others.items() if key != "weight_map"}
    whole = {"weight_map": placed, **rest} if first else {**rest, "weight_map": placed}
    found = index(json.dumps(whole, indent=indent, ensure_ascii=ascii_only))
    assert found.placed == placed
    assert found.counts == {file: list(placed.values()).count(file) for file in placed.values()}


@pytest.mark.parametrize(
    "content",
    [
        "", "[]", "{}", '{"weight_map": 7}', '{"weight_map": []}', '{"weight_map": {', '{"weight_map": {}',
        '{"weight_map": {"a": 7}}', '{"weight_map": {"a": "f",}}', '{"weight_map": {"a": "f"} "b": 1}',
        '{"weight_map": {,}}', '{"weight_map": {"a": {"b": "f"}}}', '{"weight_map": {"a": "f"}}}',
        '{"weight_map": {"a": "f", "a": "f"}}', r'{"weight_map": {"a": "f", "\u0061": "f"}}',
        '{"weight_map": {"a": "f"}, "weight_map": {"b": "f"}}', '{"weight_map": {}, "weight_map": {}}',
        '{"metadata": {"weight_map": {"a": "f"}}}', '{"metadata": {"weight_map": {}}, "weight_map": {"a": "f"}}',
        '{"weight_map": {"a\n": "f"}}', r'{"weight_map": {"\x": "f"}}', '\ufeff{"weight_map": {"a": "f"}}',
        b'{"weight_map": {"\xff": "f"}}', '{"metadata": nan, "weight_map": {"a": "f"}}',
    ],
)  # fmt: skip
def test_anything_else_is_refused_by_one_name(content):
    with pytest.raises(UnreadableError) as caught:
        index(content)
    assert caught.value.code == "IndexMalformed"


def test_a_map_that_a_string_only_speaks_of_is_none():
    text = json.dumps({"metadata": {"note": '"weight_map": {"x": "y"}'}, "weight_map": {"a": "f"}})
    assert index(text).placed == {"a": "f"}


def test_more_names_than_any_model_has_are_refused(monkeypatch):
    monkeypatch.setattr("specdec.preflight.index.MOST_NAMES", 2)
    with pytest.raises(UnreadableError, match="at most 2 tensors"):
        index('{"weight_map": {"a": "f", "b": "f", "c": "f"}}')


def test_what_a_header_and_the_index_dispute_is_named():
    found = index('{"weight_map": {"a": "f", "b": "f", "c": "g"}}')
    assert found.disputed("f", ["b", "a"]) == []
    assert found.disputed("f", ["a"]) == ["b"]
    assert found.disputed("f", ["a", "b", "c"]) == ["c"]
    assert found.disputed("f", ["a", "x"]) == ["b", "x"]


def test_reading_takes_little_more_memory_than_names_and_file():
    names = {f"model.layers.{number}.mlp.experts.down_proj.weight_packed": "model-00001.safetensors"
             for number in range(20_000)}  # fmt: skip
    source = Bytes(json.dumps({"weight_map": names}).encode())
    tracemalloc.start()
    try:
        read_index(source, INDEX, len(source.content))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 3.5 * len(source.content), "a JSON parser takes six times its file"
