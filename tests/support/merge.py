"""JSON merge patches."""

from __future__ import annotations

from typing import Any


def merged(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """Merge as RFC 7386 says: null removes a key, and what is no object replaces what stood."""
    result = dict(base)
    for key, value in over.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, dict):
            standing = result.get(key)
            result[key] = merged(standing if isinstance(standing, dict) else {}, value)
        else:
            result[key] = value
    return result
