"""What SGLang shall see of a drafter's config."""

from __future__ import annotations

import json
from typing import Any

UNREAD = ("_name_or_path", "transformers_version", "_commit_hash")
"""Keys that no engine reads and that differ between equal drafters: they must not force a restart."""


def read_by_engines(config: dict[str, Any]) -> dict[str, Any]:
    """Leave out the keys that no engine reads; `auto_map`, which runs code, is refused where it names any."""
    return {key: value for key, value in config.items() if key not in {*UNREAD, "auto_map"}}


def canonical(config: dict[str, Any]) -> bytes:
    """Write a config so that equal configs are equal bytes."""
    return json.dumps(config, sort_keys=True, indent=1, ensure_ascii=True).encode()
