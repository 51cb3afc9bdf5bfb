"""Checkpoints that an enemy, a broken copy or a full disk made, by name: each with the finding that it must get.

Every folder begins with a sound config.json; `write` adds or spoils what its name says. Weights are holes.
"""

from __future__ import annotations

import json
import os
import socket
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.headers import llama, write_file

WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
RAN = "ran"
"""File that appears in the folder if anything of it is ever executed."""


@dataclass(frozen=True)
class Hostile:
    """One folder in the making."""

    code: str
    """Of the finding that it must get."""
    write: Callable[[Path], object]

    def make(self, folder: Path) -> Path:
        """Write the folder."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.json").write_text(json.dumps(llama().config))
        self.write(folder)
        return folder


def raw_file(path: Path, header: bytes, data: bytes = b"", length: int | None = None) -> None:
    """Write one file with a header of any bytes, and of any declared length."""
    path.write_bytes(struct.pack("<Q", len(header) if length is None else length) + header + data)


def _header(code: str, header: bytes, length: int | None = None) -> Hostile:
    """A file with this header and 8 bytes of tensors."""
    return Hostile(code, lambda folder: raw_file(folder / WEIGHTS, header, bytes(8), length))


def _tensor(code: str, dtype: str = '"F32"', shape: str = "[2]", offsets: str = "[0,8]") -> Hostile:
    """A file with one tensor of these values, as JSON."""
    text = '{"w":{"dtype":%s,"shape":%s,"data_offsets":%s}}' % (dtype, shape, offsets)  # noqa: UP031 - braces
    return _header(code, text.encode())


def _pair(first: list[int], second: list[int]) -> Hostile:
    """A file whose two tensors of bytes lie so."""
    places = {name: {"dtype": "U8", "shape": [b - a], "data_offsets": [a, b]}
              for name, (a, b) in zip("ab", (first, second), strict=True)}  # fmt: skip
    return _header("TensorsMisplaced", json.dumps(places).encode())


def _file(code: str, content: bytes, name: str = WEIGHTS) -> Hostile:
    """A file of these bytes."""
    return Hostile(code, lambda folder: (folder / name).write_bytes(content))


def _config(code: str, content: bytes) -> Hostile:
    """Sound weights beside this config."""
    return Hostile(code, lambda folder: (one(folder), (folder / "config.json").write_bytes(content)))


def _index(code: str, content: Any) -> Hostile:
    """Two sound files beside this index: a weight_map, or the bytes of the whole file."""
    raw = content if isinstance(content, bytes) else json.dumps({"weight_map": content}).encode()
    return Hostile(code, lambda folder: (two(folder), (folder / INDEX).write_bytes(raw)))


def one(folder: Path) -> Path:
    """Write one sound file."""
    return write_file(folder / WEIGHTS, {"w": ("F32", [2])})


def two(folder: Path) -> Path:
    """Write two sound files, with the tensors `a.w` and `b.w`."""
    for name in "ab":
        write_file(folder / f"{name}.safetensors", {f"{name}.w": ("F32", [2])})
    return folder


def _long(folder: Path) -> None:
    with (folder / WEIGHTS).open("wb") as file:
        file.write(struct.pack("<Q", 100_000_000) + b"{")
        file.truncate(200_000_000)


def _elsewhere(folder: Path) -> Path:
    """Write sound weights beside the folder, not in it."""
    outside = folder.with_name(f"{folder.name}-elsewhere")
    outside.mkdir()
    return one(outside)


def _pickle(folder: Path) -> bytes:
    """Pickle that makes a file when it is loaded."""
    return b"cposix\nmknod\n(V" + str(folder / RAN).encode() + b"\ntR."


def _pickled_as(name: str) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_bytes(_pickle(folder))


def _remote_code(folder: Path) -> None:
    one(folder)
    (folder / "modeling_x.py").write_text(f"open({str(folder / RAN)!r}, 'w')")
    config = llama().config | {"auto_map": {"AutoModel": "modeling_x.X", "AutoConfig": "modeling_x.X"}}
    (folder / "config.json").write_text(json.dumps(config))


def _socket(folder: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        # By descriptor: a socket's path has at most 108 bytes.
        place = os.open(folder, os.O_RDONLY)
        server.bind(f"/proc/self/fd/{place}/{WEIGHTS}")
        os.close(place)


def _many_names(folder: Path) -> None:
    entries = ",".join(f'"{index}":{{}}' for index in range(500_000))
    raw_file(folder / WEIGHTS, b"{" + entries.encode() + b"}")


def _vast_map(folder: Path) -> None:
    """A d2t of 4 GiB, as a hole."""
    llama().mapping(None).adding({"d2t": ("I64", [1 << 29])}).write(folder)


def _linked(name: str, target: str) -> Callable[[Path], object]:
    return lambda folder: (one(folder), (folder / name).unlink(), (folder / name).symlink_to(target))


_WITH_METADATA = b'{"__metadata__":%s,"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}'

CASES: dict[str, Hostile] = {
    # The header's length.
    "an empty file": _file("HeaderMalformed", b""),
    "a file of seven bytes": _file("HeaderMalformed", bytes(7)),
    "a header of no bytes": _header("HeaderMalformed", b"", 0),
    "a header longer than its file": _header("HeaderMalformed", b"{}", 1 << 20),
    "a header of 2^64 - 1 bytes": _header("HeaderMalformed", b"{}", (1 << 64) - 1),
    "a header of 100 MB": Hostile("HeaderTooLarge", _long),
    # What is JSON and what is not.
    "a header that is not JSON": _header("HeaderMalformed", b"{not json"),
    "a header that is a list": _header("HeaderMalformed", b"[1]"),
    "a header that is not UTF-8": _header("HeaderMalformed", b'{"\xff\xfe":1}'),
    "a header after a byte order mark": _header("HeaderMalformed", b"\xef\xbb\xbf{}"),
    "a header after spaces": _header("HeaderMalformed", b"   {}"),
    "a header with more after it": _header("HeaderMalformed", b"{}{}"),
    "a header of 90 000 nested lists": _header("HeaderMalformed", b'{"w":' + b"[" * 90_000),
    "a header of half a million tensors": Hostile("HeaderTooLarge", _many_names),
    "metadata that is a list": _header("HeaderMalformed", _WITH_METADATA % b'["pt"]'),
    "metadata of numbers": _header("HeaderMalformed", _WITH_METADATA % b'{"format":1}'),
    "one name twice": _header(
        "TensorRepeated", b'{"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"w":{}}'
    ),
    # One tensor's entry.
    "a tensor that is a number": _header("HeaderMalformed", b'{"w":1}'),
    "a tensor without a place": _header("HeaderMalformed", b'{"w":{"dtype":"F32","shape":[2]}}'),
    "an unknown type": _tensor("DtypeUnknown", dtype='"PICKLE"'),
    "a type that is a list": _tensor("DtypeUnknown", dtype='["F32"]'),
    "a negative extent": _tensor("HeaderMalformed", shape="[-2]"),
    "an extent of 2.0": _tensor("HeaderMalformed", shape="[2.0]"),
    "an extent that is true": _tensor("HeaderMalformed", shape="[true]"),
    "an extent that is NaN": _tensor("HeaderMalformed", shape="[NaN]"),
    "an extent of 5 000 digits": _tensor("HeaderMalformed", shape=f"[{'9' * 5000}]"),
    "seventeen dimensions": _tensor("HeaderMalformed", shape=str([1] * 17)),
    "sixteen dimensions of 2^62": _tensor("TensorSizeWrong", shape=str([1 << 62] * 16)),
    "more elements than bytes": _tensor("TensorSizeWrong", shape="[3]"),
    "a negative offset": _tensor("HeaderMalformed", offsets="[-8,0]"),
    "an offset of 2^63": _tensor("HeaderMalformed", offsets=f"[0,{1 << 63}]"),
    "an offset of 2^62": _tensor("FileTruncated", offsets=f"[0,{1 << 62}]"),
    "an offset of infinity": _tensor("HeaderMalformed", offsets="[0,Infinity]"),
    "three offsets": _tensor("HeaderMalformed", offsets="[0,4,8]"),
    "an end before its beginning": _tensor("TensorOutOfBounds", offsets="[8,0]"),
    # Where tensors lie.
    "overlapping tensors": _pair([0, 6], [4, 8]),
    "one tensor inside another": _pair([0, 8], [2, 4]),
    "a gap between tensors": _pair([0, 2], [4, 8]),
    "bytes after the last tensor": _pair([0, 2], [2, 6]),
    "one tensor in two files": Hostile("TensorRepeated", lambda folder: (one(folder), write_file(folder / "b.safetensors", {"w": ("F32", [2])}))),
    "a token map of 4 GiB": Hostile("TokenMapLengthWrong", _vast_map),
    # config.json.
    "a config that is not JSON": _config("ConfigMalformed", b"{"),
    "a config that is a list": _config("ConfigMalformed", b"[]"),
    "a config that is not UTF-8": _config("ConfigMalformed", b'{"a":"\xff"}'),
    "a config with a key twice": _config("ConfigMalformed", b'{"a":1,"a":2}'),
    "a config with a number of 5 000 digits": _config("ConfigMalformed", b'{"a":' + b"9" * 5000 + b"}"),
    "a config of 3 000 nested lists": _config("ConfigMalformed", b'{"a":' + b"[" * 3000 + b"]" * 3000 + b"}"),
    "a config of 100 000 nested lists": _config("ConfigTooLarge", b"[" * 100_000),
    "a config of 2 MB": _config("ConfigTooLarge", b" " * (2 << 20)),
    "a config that runs code": Hostile("RemoteCode", _remote_code),
    # The index.
    "an index that lists a file not there": _index("ShardMissing", {"a.w": "a.safetensors", "b.w": "b.safetensors", "c.w": "c.safetensors"}),
    "an index of 5 000 files not there": _index("ShardMissing", {f"{i}.w": f"{i}.safetensors" for i in range(5_000)}),
    "an index that lists a file outside": _index("LinkOutsideFolder", {"a.w": "a.safetensors", "b.w": "../../etc/passwd"}),
    "an index that lists an absolute path": _index("LinkOutsideFolder", {"a.w": "/etc/passwd"}),
    "an index that puts names elsewhere": _index("IndexWrong", {"a.w": "a.safetensors", "x.w": "b.safetensors"}),
    "an index whose file is a number": _index("IndexMalformed", {"a.w": 7}),
    "an index that is a list": _index("IndexMalformed", []),
    "an index of a million nested lists": _index("IndexTooLarge", b'{"weight_map":' + b"[" * 1_000_000),
    # What runs code.
    "a pickle alone": Hostile("PickleOnly", _pickled_as("pytorch_model.bin")),
    "a pickle called safetensors": Hostile("HeaderMalformed", _pickled_as(WEIGHTS)),
    "a torch archive called safetensors": _file("HeaderMalformed", b"PK\x03\x04" + bytes(64)),
    # What is no file of this folder.
    "no weights": Hostile("NoWeights", lambda _: None),
    "no config": Hostile("ConfigMissing", lambda folder: (one(folder), (folder / "config.json").unlink())),
    "a folder called safetensors": Hostile("NoWeights", lambda folder: (folder / WEIGHTS).mkdir()),
    "weights that are a FIFO": Hostile("NotReadable", lambda folder: os.mkfifo(folder / WEIGHTS)),
    "weights that are a socket": Hostile("NotReadable", _socket),
    "a config that is a FIFO": Hostile("NotReadable", lambda folder: (one(folder), (folder / "config.json").unlink(), os.mkfifo(folder / "config.json"))),
    "weights that link to a device": Hostile("LinkOutsideFolder", _linked(WEIGHTS, "/dev/zero")),
    "weights that link out of the folder": Hostile("LinkOutsideFolder", lambda folder: (folder / WEIGHTS).symlink_to(_elsewhere(folder))),
    "a config that links out of the folder": Hostile("LinkOutsideFolder", _linked("config.json", "/etc/hostname")),
    "weights that link nowhere": Hostile("NoWeights", _linked(WEIGHTS, "gone")),
    "weights that link to themselves": Hostile("NotReadable", _linked(WEIGHTS, WEIGHTS)),
    # Names that would write on a terminal.
    "a file whose name moves the cursor": _file("HeaderMalformed", b"", "\x1b[2J\n.safetensors"),
    "a file whose name is not UTF-8": _file("HeaderMalformed", b"", os.fsdecode(b"\xff.safetensors")),
    "a tensor whose name moves the cursor": Hostile("ParametersNotFed", lambda folder: write_file(folder / WEIGHTS, {"\x1b[2Jfc\n" + "x" * 9000: ("F32", [2])})),
    "a tensor whose name is half a character": _header("ParametersNotFed", b'{"\\ud800":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}'),
}  # fmt: skip
