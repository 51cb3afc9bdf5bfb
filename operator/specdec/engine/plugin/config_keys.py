"""Whether a drafter's config.json equals the serving one's in every key that SGLang may read."""

from __future__ import annotations

from typing import Any

IGNORED = {
    "_name_or_path": "where the trainer found its base",
    "transformers_version": "who wrote the file",
    "use_cache": "transformers' own generate()",
    "initializer_range": "training only",
    "pretraining_tp": "training only",
    "attention_dropout": "training only",
}
"""Keys that a swap may change, each with its reason. Any other key counts: SGLang reads config keys in many
places, and a key that it reads only at the start would stay as it was until a restart."""


def differing_key(serving: dict[str, Any], staged: dict[str, Any], prefix: str = "") -> str:
    """Name the first differing key, dotted for nested ones; empty if there is none. A null equals an absent key."""
    for key in sorted(serving.keys() | staged.keys()):
        if key in IGNORED:
            continue
        before, after = serving.get(key), staged.get(key)
        if isinstance(before, dict) and isinstance(after, dict):
            if nested := differing_key(before, after, f"{prefix}{key}."):
                return nested
        elif before != after:
            return f"{prefix}{key}"
    return ""


def value_of(config: dict[str, Any], dotted: str) -> Any:
    """Value of a dotted key, None if absent."""
    value: Any = config
    for part in dotted.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value
