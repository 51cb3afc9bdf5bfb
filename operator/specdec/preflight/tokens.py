"""A drafter's token map: `d2t` says which target token each draft token is, `t2d` which target tokens it has.

These two tables are the only tensor data that the preflight reads (together at most 4 MiB): whether
`d2t` holds offsets or absolute ids can't be told from a header.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from specdec.preflight.header import Entry
from specdec.preflight.source import Source, UnreadableError

MOST_BYTES = 2 << 20
CODES = {"I64": "q", "I32": "i"}


@dataclass(frozen=True)
class TokenMap:
    """What the tables say."""

    d2t: Sequence[int] | None
    t2d: bytes | None
    """One byte for each target token."""
    vocabulary: int | None = None
    """Size of the target's vocabulary, by the drafter's config."""

    def targets(self) -> list[int]:
        """Target ids as SGLang computes them."""
        return [index + offset for index, offset in enumerate(self.d2t or ())]

    @property
    def looks_absolute(self) -> bool:
        """Whether d2t holds target ids: t2d (or else order and range) fits them and not the sums."""
        if not self.d2t or not any(self.d2t):
            return False
        if self.t2d is not None:
            return self._all_drafted(self.d2t) and not self._all_drafted(self.targets())
        overflows = self.vocabulary is not None and self.targets()[-1] >= self.vocabulary
        return overflows and all(before < after for before, after in pairwise(self.d2t))

    def _all_drafted(self, ids: Sequence[int]) -> bool:
        marks = self.t2d or b""
        return all(0 <= token < len(marks) and marks[token] for token in ids)


def read_token_map(source: Source, entries: Mapping[str, Entry], vocabulary: int | None) -> TokenMap:
    """Read the tables, if their types and sizes are sane.

    Raises
    ------
    UnreadableError
        Their file can't be read.
    """
    d2t, t2d = _table(entries, "d2t"), _table(entries, "t2d")
    offsets: array[int] | None = None
    if d2t is not None and d2t.dtype in CODES and len(d2t.shape) == 1:
        offsets = array(CODES[d2t.dtype], read_whole(source, d2t))
        if sys.byteorder == "big":
            offsets.byteswap()
    marks = None
    if t2d is not None and t2d.dtype in {"BOOL", "U8", "I8"} and len(t2d.shape) == 1:
        marks = read_whole(source, t2d)
    return TokenMap(offsets, marks, vocabulary)


def read_whole(source: Source, entry: Entry) -> bytes:
    """Read one tensor's data.

    Raises
    ------
    UnreadableError
        The file ends inside it, or can't be read.
    """
    content = source.read(entry.file, entry.start, entry.end - entry.start)
    if len(content) < entry.end - entry.start:
        raise UnreadableError(
            "FileTruncated", f"{entry.file} ends inside {entry.name}", "a whole file", "copy the file again"
        )
    return content


def _table(entries: Mapping[str, Entry], name: str) -> Entry | None:
    found = next((entry for full, entry in entries.items() if full.rpartition(".")[2] == name), None)
    return found if found is not None and found.end - found.start <= MOST_BYTES else None
