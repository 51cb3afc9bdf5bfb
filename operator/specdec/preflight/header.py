"""The header of a safetensors file, parsed as if an enemy had written it.

Bounds come first: the header's length is judged before it is read, and the number of tensors before it is
parsed, so that a refused file costs 8 bytes and microseconds. Then everything that the format promises is
checked: names are unique, every tensor's bytes are as many as its shape needs, tensors lie without overlap
or gap, and the file ends where the last one does (huggingface/safetensors, tensor.rs `validate`).
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from math import prod
from operator import attrgetter
from typing import Any, NamedTuple

from specdec.preflight.finding import printable
from specdec.preflight.source import Source, UnreadableError

BITS = {
    "BOOL": 8, "U8": 8, "I8": 8, "F8_E5M2": 8, "F8_E4M3": 8, "F8_E8M0": 8, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8,
    "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "I16": 16, "U16": 16, "F16": 16, "BF16": 16, "I32": 32, "U32": 32,
    "F32": 32, "C64": 64, "F64": 64, "I64": 64, "U64": 64,
}  # fmt: skip
"""Types that the format knows, and their size."""
MAX_DIMENSIONS = 16
MOST = 1 << 63
FIELDS = frozenset({"dtype", "shape", "data_offsets"})


class Entry(NamedTuple):
    """One tensor: `start` and `end` count from the beginning of the file. There may be 200 000 of them."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    file: str
    start: int
    end: int


@dataclass(frozen=True)
class Limits:
    """How much of a header is believed."""

    header_bytes: int
    tensors: int


DRAFTER = Limits(4 << 20, 8192)
"""A drafter has some dozen tensors in a few KB."""
TARGET = Limits(16 << 20, 131_072)
"""The largest shard of a 1T-parameter mixture of experts has some thousand tensors in 2 MB."""


@dataclass(frozen=True)
class Header:
    """What one file declares."""

    entries: tuple[Entry, ...]
    metadata: dict[str, str]


def read_header(source: Source, file: str, size: int, limits: Limits) -> Header:
    """Read and check one file's header.

    Raises
    ------
    UnreadableError
        It is not what the format allows, or larger than the limits.
    """
    raw = raw_header(source, file, size, limits)
    crowd = raw.count(b"{")
    if crowd > limits.tensors + 2:
        raise _malformed(
            "HeaderTooLarge", file, f"declares about {crowd} tensors", f"at most {limits.tensors}"
        )
    if raw[:1] != b"{":
        # Parsers differ on what may stand before it: spaces, a byte order mark.
        raise _malformed(
            "HeaderMalformed", file, "has a header that does not begin with {", "one JSON object"
        )
    begin = 8 + len(raw)
    try:
        text = raw.decode("utf-8")
        pairs = json.loads(text, object_pairs_hook=_unique)
    except UnicodeDecodeError as error:
        raise _malformed("HeaderMalformed", file, "has a header that is not UTF-8", "UTF-8 JSON") from error
    except _RepeatedError as error:
        found = f"declares {printable(str(error))} twice"
        raise _malformed("TensorRepeated", file, found, "every name once") from error
    except (ValueError, RecursionError) as error:
        found = f"has a header that is not JSON ({printable(str(error), 60)})"
        raise _malformed("HeaderMalformed", file, found, "one JSON object") from error
    metadata = pairs.pop("__metadata__", None)
    entries = tuple(_entry(file, name, value, begin, size) for name, value in pairs.items())
    _laid_out(file, entries, begin, size)
    return Header(entries, _metadata(file, metadata))


def raw_header(source: Source, file: str, size: int, limits: Limits) -> bytes:
    """Read one file's header without parsing it.

    Raises
    ------
    UnreadableError
        It is longer than the file or the limits.
    """
    length = int.from_bytes(source.read(file, 0, 8), "little")
    if size < 8 or length < 2 or length > size - 8:
        raise _malformed(
            "HeaderMalformed", file, f"has {size} bytes and declares a header of {length}", "a whole file"
        )
    if length > limits.header_bytes:
        raise _malformed(
            "HeaderTooLarge", file, f"declares a header of {length} bytes", f"at most {limits.header_bytes}"
        )
    raw = source.read(file, 8, length)
    if len(raw) < length:
        raise _malformed("FileTruncated", file, f"ends inside its header of {length} bytes", "a whole file")
    return raw


class _RepeatedError(Exception):
    """A JSON object has one key twice; parsers differ on which of them counts."""


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        counts = Counter(name for name, _ in pairs)
        raise _RepeatedError(counts.most_common(1)[0][0])
    return found


def _metadata(file: str, value: Any) -> dict[str, str]:
    if value is None:
        return {}
    if not isinstance(value, dict) or not all(isinstance(item, str) for item in value.values()):
        raise _malformed("HeaderMalformed", file, "has __metadata__ that is no map of texts", "texts by name")
    return value


def _entry(file: str, name: str, value: Any, begin: int, size: int) -> Entry:
    if not isinstance(value, dict) or not value.keys() >= FIELDS:
        raise _malformed(
            "HeaderMalformed",
            file,
            f"describes {printable(name)} incompletely",
            "dtype, shape and data_offsets",
        )
    dtype, shape, offsets = value["dtype"], value["shape"], value["data_offsets"]
    if not isinstance(dtype, str) or dtype not in BITS:
        raise _malformed(
            "DtypeUnknown",
            file,
            f"gives {printable(name)} the type {printable(str(dtype))}",
            "a type of safetensors",
        )
    if not _counts(shape) or len(shape) > MAX_DIMENSIONS:
        raise _malformed(
            "HeaderMalformed", file, f"gives {printable(name)} a shape that is none", "whole numbers"
        )
    if not _counts(offsets) or len(offsets) != 2:
        raise _malformed(
            "HeaderMalformed", file, f"gives {printable(name)} offsets that are none", "two whole numbers"
        )
    first, last = offsets
    if first > last or begin + last > size:
        code = "FileTruncated" if first <= last else "TensorOutOfBounds"
        found = f"places {printable(name)} at bytes {first} to {last} of {size - begin}"
        raise _malformed(code, file, found, "a place inside the file")
    bits = prod(shape) * BITS[dtype]
    if bits != (last - first) * 8:
        found = f"gives {printable(name)} {last - first} bytes for {dtype} {list(shape)}"
        raise _malformed("TensorSizeWrong", file, found, f"{bits // 8} bytes")
    return Entry(name, dtype, tuple(shape), file, begin + first, begin + last)


def _counts(value: Any) -> bool:
    if not isinstance(value, list):
        return False
    # A loop, not all(): this runs for every tensor of the largest models.
    for item in value:  # noqa: SIM110
        if type(item) is not int or not 0 <= item < MOST:
            return False
    return True


def _laid_out(file: str, entries: tuple[Entry, ...], begin: int, size: int) -> None:
    """Refuse overlaps, gaps and trailing bytes: loaders differ on what they make of them."""
    place, before = begin, "the header"
    for entry in sorted(entries, key=attrgetter("start", "end")):
        if entry.start != place:
            relation = "overlaps" if entry.start < place else "leaves a gap after"
            found = f"has {printable(entry.name)} where it {relation} {printable(before)}"
            raise _malformed("TensorsMisplaced", file, found, "tensors side by side")
        place, before = entry.end, entry.name
    if place != size:
        found = f"has {size - place} bytes after its last tensor"
        raise _malformed("TensorsMisplaced", file, found, "a file that ends with its last tensor")


def _malformed(code: str, file: str, found: str, expected: str) -> UnreadableError:
    return UnreadableError(code, f"{file} {found}", expected, "copy the file again, or export it anew")
