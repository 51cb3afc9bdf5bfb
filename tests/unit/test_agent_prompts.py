"""The prompts of probe and warm-up: the user's own from a mounted ConfigMap, and one image."""

from __future__ import annotations

import base64
import struct
import zlib
from itertools import islice
from pathlib import Path

from specdec.engine.agent.prompts import (
    IMAGE_SIZE,
    LONGEST_PROMPT,
    MOST_PROMPTS,
    PROMPTS,
    endless,
    given,
    image,
)


def mount(folder: Path, values: dict[str, str]) -> Path:
    """Lay the files out as the kubelet does: links into a folder that `..data` names."""
    data = folder / "..2026"
    data.mkdir(parents=True)
    (folder / "..data").symlink_to(data.name)
    for key, value in values.items():
        (data / key).write_text(value)
        (folder / key).symlink_to(f"..data/{key}")
    return folder


def test_each_value_of_the_config_map_is_a_prompt(tmp_path: Path):
    folder = mount(tmp_path / "prompts", {"b": "Second?\n", "a": "First?"})
    assert given(folder) == (("First?", "Second?"), "")


def test_without_a_config_map_the_agents_own_are_used(tmp_path: Path):
    assert given(tmp_path / "none") == (PROMPTS, "")


def test_a_config_map_without_prompts_is_said(tmp_path: Path):
    prompts, why = given(mount(tmp_path / "prompts", {"a": "  \n"}))
    assert prompts == PROMPTS
    assert "holds no prompt" in why


def test_long_and_many_prompts_are_bounded(tmp_path: Path):
    prompts, _ = given(mount(tmp_path / "prompts", {f"p{number:02}": "x" * 9000 for number in range(40)}))
    assert (len(prompts), {len(prompt) for prompt in prompts}) == (MOST_PROMPTS, {LONGEST_PROMPT})


def test_no_two_prompts_begin_alike():
    assert len({prompt[:10] for prompt in islice(endless(("same",)), 20)}) > 1


def test_the_image_is_a_png_of_two_colours():
    kind, _, encoded = image().partition(",")
    data = base64.b64decode(encoded)
    assert (kind, data[:8]) == ("data:image/png;base64", b"\x89PNG\r\n\x1a\n")
    chunks, at = {}, 8
    while at < len(data):
        (size,) = struct.unpack(">I", data[at : at + 4])
        name, body = data[at + 4 : at + 8], data[at + 8 : at + 8 + size]
        assert struct.unpack(">I", data[at + 8 + size : at + 12 + size]) == (zlib.crc32(name + body),)
        chunks[name] = body
        at += 12 + size
    assert struct.unpack(">IIBBBBB", chunks[b"IHDR"]) == (IMAGE_SIZE, IMAGE_SIZE, 8, 2, 0, 0, 0)
    rows = zlib.decompress(chunks[b"IDAT"])
    line = 1 + 3 * IMAGE_SIZE
    assert len(rows) == IMAGE_SIZE * line
    assert len({rows[place * line : (place + 1) * line] for place in range(IMAGE_SIZE)}) == 2
