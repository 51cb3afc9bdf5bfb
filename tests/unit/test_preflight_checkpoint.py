from __future__ import annotations

import json
import os
import struct
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from specdec.preflight import checkpoint, digest
from specdec.preflight.overlay import canonical, read_by_engines
from specdec.preflight.reading import read_drafter, shards
from specdec.preflight.source import LocalFolder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    save_file({"fc.weight": np.ones((2, 6), np.float16), "d2t": np.arange(4)}, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text('{"hidden_size": 2}')
    return tmp_path


def refusal(folder: Path) -> str:
    refused = checkpoint.refusal(read_drafter(LocalFolder(folder)))
    assert refused is not None
    assert str(refused).count(". ") == 0, "one sentence"
    return refused.reason


def test_a_sound_folder_is_its_config_and_its_files(folder):
    found = read_drafter(LocalFolder(folder))
    assert checkpoint.refusal(found) is None
    assert found.config == {"hidden_size": 2}
    assert shards(found.files) == ["model.safetensors"]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("", "ConfigMalformed"),
        ("[1]", "ConfigMalformed"),
        ("[" * 100_000, "ConfigTooLarge"),
        ('{"a": 1, "a": 2}', "ConfigMalformed"),
        (" " * (1 << 21), "ConfigTooLarge"),
    ],
)
def test_refuses_a_config_that_is_none(folder, content, reason):
    (folder / "config.json").write_text(content)
    assert refusal(folder) == reason


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x05",
        struct.pack("<Q", 1 << 60) + b"{}",
        struct.pack("<Q", 2) + b"[]",
        struct.pack("<Q", 4) + b"nope",
        struct.pack("<Q", 9) + b'{"a": {}}',
    ],
)
def test_refuses_a_header_that_is_none(folder, content):
    (folder / "model.safetensors").write_bytes(content)
    assert refusal(folder) == "HeaderMalformed"


def test_refuses_a_truncated_file(folder):
    whole = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(whole[:-1])
    assert refusal(folder) == "FileTruncated"


def test_refuses_bytes_after_the_last_tensor(folder):
    whole = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(whole + b"\0")
    assert refusal(folder) == "TensorsMisplaced"


def test_refuses_pickles_and_emptiness(folder):
    (folder / "model.safetensors").unlink()
    assert refusal(folder) == "NoWeights"
    (folder / "pytorch_model.bin").write_bytes(b"\x80")
    assert refusal(folder) == "PickleOnly"


def test_refuses_what_is_missing(folder):
    (folder / "config.json").unlink()
    assert refusal(folder) == "ConfigMissing"
    assert refusal(folder / "nowhere") == "FileMissing"


@pytest.mark.parametrize("named", [{"AutoModel": "modeling.Evil"}, "modeling.Evil"])
def test_refuses_code_from_the_drafters_folder(folder, named):
    (folder / "config.json").write_text(json.dumps({"auto_map": named}))
    assert refusal(folder) == "RemoteCode"


def test_a_map_that_names_no_code_is_left_out():
    assert read_by_engines({"auto_map": {}, "hidden_size": 2}) == {"hidden_size": 2}


def test_equal_configs_are_equal_bytes_whatever_tool_wrote_them():
    one = {"hidden_size": 2, "vocab_size": 4, "transformers_version": "4.57"}
    two = {"transformers_version": "5.19", "_name_or_path": "x", "vocab_size": 4, "hidden_size": 2}
    assert canonical(read_by_engines(one)) == canonical(read_by_engines(two))


def test_the_content_digest_covers_every_byte(folder):
    before = digest.content_digest(folder)
    weights = bytearray((folder / "model.safetensors").read_bytes())
    weights[-1] ^= 1
    (folder / "model.safetensors").write_bytes(weights)
    assert digest.content_digest(folder) != before


def test_the_header_digest_covers_config_headers_and_sizes_only(folder):
    before = digest.header_digest(folder)
    weights = bytearray((folder / "model.safetensors").read_bytes())
    weights[-1] ^= 1
    (folder / "model.safetensors").write_bytes(weights)
    assert digest.header_digest(folder) == before
    (folder / "config.json").write_text('{"hidden_size": 3}')
    assert digest.header_digest(folder) != before


def test_a_digest_ignores_how_the_config_is_laid_out(folder):
    before = digest.content_digest(folder)
    (folder / "config.json").write_text(json.dumps({"hidden_size": 2}, indent=4) + "\n")
    assert digest.content_digest(folder) == before


@pytest.mark.parametrize("present", [True, False])
def test_the_digest_command_says_one_line(folder, present, monkeypatch, capsys):
    monkeypatch.setattr(os, "nice", lambda by: by)
    monkeypatch.setattr("sys.argv", ["digest", str(folder if present else folder / "nowhere")])
    assert digest.main() == (0 if present else 1)
    out, err = capsys.readouterr()
    assert out.startswith("sha256:") if present else "is no folder" in err
