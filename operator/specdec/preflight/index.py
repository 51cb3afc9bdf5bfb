"""`model.safetensors.index.json`: which file holds which tensor.

The index of a 1T-parameter model has 200,000 names in 20 MB, most of what the preflight reads. A JSON parser
holds text, names, values and pairs at once, six times that; so the map of names is taken apart in place, name by
name, and the parser gets what is left.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from json.decoder import scanstring  # type: ignore[attr-defined]

from specdec.preflight.finding import some
from specdec.preflight.json_object import parsed, read_text
from specdec.preflight.source import Source, UnreadableError

INDEX = "model.safetensors.index.json"
INDEX_BYTES = 40 << 20
MOST_NAMES = 1 << 19
"""Tensors of one model; a 1T-parameter mixture of experts has 200,000."""
FILES = "names of files"

BEGIN = re.compile(r'"weight_map"[ \t\n\r]*:[ \t\n\r]*\{[ \t\n\r]*(["}])')
COLON = re.compile(r'[ \t\n\r]*:[ \t\n\r]*"')
COMMA = re.compile(r'[ \t\n\r]*(?:,[ \t\n\r]*"|\})')
"""What may stand between two texts (RFC 8259, sections 2 and 4); only ever matched in place, so in linear time."""


@dataclass(frozen=True)
class Index:
    """What the index says."""

    placed: Mapping[str, str]
    """File of each tensor."""
    counts: Mapping[str, int]
    """How many tensors each file holds."""

    def disputed(self, file: str, names: Collection[str]) -> list[str]:
        """Names that only one of a file's header and the index puts into this file."""
        strangers = [name for name in names if self.placed.get(name) != file]
        if not strangers and len(names) == self.counts[file]:
            return []
        absent = {name for name, place in self.placed.items() if place == file}.difference(names)
        return sorted({*strangers, *absent})


def read_index(source: Source, name: str, size: int) -> Index:
    """Read a folder's index, whatever its name is where it really lies.

    Raises
    ------
    UnreadableError
        It is too large, not JSON, has no weight_map or a name twice.
    """
    text = read_text(source, name, size, INDEX_BYTES, "Index")
    placed: dict[str, str] = {}
    begin = BEGIN.search(text)
    if begin is not None:
        try:
            placed, end = _taken_apart(text, begin)
        except ValueError as error:
            raise _malformed(f"is not JSON ({error})") from error
        text = text[: begin.start(1)] + text[end:]
    # Empty is the map that was taken apart; anything else stands elsewhere in the file, or is no map.
    if parsed(text, INDEX, "Index").get("weight_map") != {}:
        raise _malformed("has no weight_map")
    return Index(placed, Counter(placed.values()))


def _taken_apart(text: str, begin: re.Match[str]) -> tuple[dict[str, str], int]:
    """All names of the map that begins here, and where its closing brace is."""
    placed: dict[str, str] = {}
    files: dict[str, str] = {}
    place, colon, comma = begin.end(), ': "', ', "'
    if begin[1] == "}":
        return placed, place - 1
    while len(placed) < MOST_NAMES:
        name, place = scanstring(text, place)
        # Writers put the same characters between all names: they are looked for before anything that may be there.
        if not text.startswith(colon, place):
            colon = _separator(COLON, text, place)
        file, place = scanstring(text, place + len(colon))
        if not text.startswith(comma, place):
            comma = _separator(COMMA, text, place)
        place += len(comma)
        if name in placed:
            raise _malformed(f"names {some([name])} twice")
        placed[name] = files.setdefault(file, file)
        if comma[-1] == "}":
            return placed, place - 1
    most = f"at most {MOST_NAMES} tensors"
    raise UnreadableError("IndexTooLarge", f"{INDEX} has more names than any model", most, "copy it again")


def _separator(pattern: re.Pattern[str], text: str, place: int) -> str:
    found = pattern.match(text, place)
    if found is None:
        raise _malformed(f"has a weight_map that is none from character {place} on")
    return found[0]


def _malformed(found: str) -> UnreadableError:
    return UnreadableError("IndexMalformed", f"{INDEX} {found}", FILES, "copy it again")
