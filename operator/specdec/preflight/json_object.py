"""Reading a JSON object that may be hostile: too large, too deep, or with a key twice."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from specdec.preflight.finding import some
from specdec.preflight.source import Source, UnreadableError

MOST_NESTED = 4096
"""Objects and lists in one file; parsing more of them takes time and memory that no config needs."""
EXPECTED, HINT = "one JSON object", "copy the file again"


def read_json(source: Source, name: str, size: int, most: int, code: str) -> dict[str, Any]:
    """Read a whole file.

    Raises
    ------
    UnreadableError
        It is too large, not JSON, no object, or has a key twice; its code begins with `code`.
    """
    return parsed(read_text(source, name, size, most, code), name, code)


def read_text(source: Source, name: str, size: int, most: int, code: str) -> str:
    """Read a file that is to be parsed.

    Raises
    ------
    UnreadableError
        It is too large, not UTF-8, or can't be read.
    """
    if size > most:
        raise UnreadableError(f"{code}TooLarge", f"{name} has {size} bytes", f"at most {most}", HINT)
    try:
        return source.read(name, 0, size).decode("utf-8")
    except UnicodeDecodeError as error:
        raise _not_json(name, code, error) from error


def parsed(text: str, name: str, code: str) -> dict[str, Any]:
    """Parse what a file holds.

    Raises
    ------
    UnreadableError
        It nests too much, is not JSON, no object, or has a key twice.
    """
    if text.count("{") + text.count("[") > MOST_NESTED:
        raise UnreadableError(f"{code}TooLarge", f"{name} nests thousands of objects", EXPECTED, HINT)
    try:
        value = json.loads(text, object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        raise _not_json(name, code, error) from error
    if not isinstance(value, dict):
        raise UnreadableError(f"{code}Malformed", f"{name} holds a {type(value).__name__}", EXPECTED, HINT)
    return value


def _not_json(name: str, code: str, error: Exception) -> UnreadableError:
    return UnreadableError(f"{code}Malformed", f"{name} is not JSON ({error})", EXPECTED, HINT)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        counts = Counter(name for name, _ in pairs)
        raise ValueError(f"it has {some([name for name, count in counts.most_common(9) if count > 1])} twice")
    return found
