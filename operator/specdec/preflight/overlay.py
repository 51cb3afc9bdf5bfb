"""What SGLang shall see of a drafter's config: repaired where that touches no weight, and said."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from specdec.preflight.checkpoint import CheckpointRefusedError

LAYER_IDS = "eagle_aux_hidden_state_layer_ids"
UNREAD = ("_name_or_path", "transformers_version", "_commit_hash")
"""Keys that no engine reads and that differ between equal drafters: they must not force a restart."""


@dataclass(frozen=True)
class NormalisedConfig:
    """A drafter's config as the engine gets it."""

    config: dict[str, Any]
    repairs: tuple[str, ...]
    """One sentence for each change that matters."""


def normalised(config: dict[str, Any], *, repair: bool = True) -> NormalisedConfig:
    """Normalise a drafter's config; without repair only keys go that no engine reads.

    Raises
    ------
    CheckpointRefusedError
        The config asks the engine to run code from the drafter's folder.
    """
    if config.get("auto_map"):
        raise CheckpointRefusedError(
            "RemoteCode",
            "the drafter's config has auto_map, which runs code from its folder; a drafter needs none: remove the key",
        )
    clean = {key: value for key, value in config.items() if key not in UNREAD and key != "auto_map"}
    repairs = []
    eagle = clean.get("eagle_config")
    nested = eagle.get(LAYER_IDS) if isinstance(eagle, dict) else None
    if repair and clean.get(LAYER_IDS) and nested is None:
        # SGLang sizes fc from either place but captures only from the nested one.
        clean["eagle_config"] = {**(eagle or {}), LAYER_IDS: clean[LAYER_IDS]}
        repairs.append(f"{LAYER_IDS} was copied into eagle_config, the only place where SGLang captures from")
    return NormalisedConfig(clean, tuple(repairs))


def canonical(config: dict[str, Any]) -> bytes:
    """Write a config so that equal configs are equal bytes."""
    return json.dumps(config, sort_keys=True, indent=1, ensure_ascii=True).encode()
