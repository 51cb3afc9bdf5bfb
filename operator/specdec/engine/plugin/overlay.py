"""Patch `overlay`: the rules in a drafter's `overlay.json` are applied to its tensors as they are read.

Symptom: a drafter whose names a training wrapper prefixed, or whose d2t holds absolute ids, is refused by the
strict load, or drafts tokens that nobody meant; its files must not be rewritten to mend that.
Upstream: `LlamaForCausalLMEagle3.load_weights` in all versions to 0.5.23 knows one set of names and offsets only.
In force: the log says "overlay.json: N renames" at the start, and such a drafter reaches its accept length.

The rules are the preflight's (`specdec.preflight.loading`); this module decides nothing. They are read beside
config.json, at the start and at every Stage.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from specdec.engine.plugin.hooks import Hook, Patch
from specdec.engine.plugin.refusal import RefusedError, refuse_start
from specdec.engine.plugin.state import engine
from specdec.preflight.loading import ABSOLUTE_TO_OFFSETS, NOTHING, OVERLAY, Overlay, applied

log = logging.getLogger("specdec")


def to_offsets(ids: Any) -> Any:
    """Subtract its index from each id of a token map."""
    import torch

    return ids - torch.arange(ids.shape[0], dtype=ids.dtype, device=ids.device)


TRANSFORMS = {ABSOLUTE_TO_OFFSETS: to_offsets}
"""What is known to be done to a tensor, by its name in the rules."""


def read_rules(folder: Path) -> Overlay:
    """Read a folder's rules; none if it has no such file.

    Raises
    ------
    RefusedError
        They can't be read, or name something that this plugin does not know.
    """
    path = folder / OVERLAY
    try:
        rules = Overlay.from_json(json.loads(path.read_bytes()))
    except FileNotFoundError:
        return NOTHING
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise RefusedError("OverlayUnknown", f"{path} holds no rules of the preflight: {error!r}") from error
    unknown = sorted(set(rules.transforms.values()) - TRANSFORMS.keys())
    if unknown:
        raise RefusedError(
            "OverlayUnknown",
            f"{path} asks for {', '.join(unknown)}, expected {', '.join(TRANSFORMS)}: agent and plugin differ",
        )
    return rules


def mended(folder: Path, tensors: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    """Yield a folder's tensors as its rules want them."""
    return applied(read_rules(folder), tensors, TRANSFORMS)


def mend_at_start(original: Any, loader: Any, model_config: Any, *args: Any, **kwargs: Any) -> Any:
    """Around DefaultModelLoader._get_all_weights."""
    tensors = original(loader, model_config, *args, **kwargs)
    if not model_config.is_draft_model:
        return tensors
    folder = Path(model_config.model_path)
    try:
        rules = read_rules(folder)
    except RefusedError as refusal:
        refuse_start(engine().settings.run_dir, refusal.reason, refusal.message)
    if not rules.empty:
        log.info(
            "overlay.json: %d renames, %d transforms, %d drops",
            len(rules.renames), len(rules.transforms), len(rules.drops),
        )  # fmt: skip
    return applied(rules, tensors, TRANSFORMS)


PATCH = Patch(
    "overlay",
    (
        Hook(
            "sglang.srt.model_loader.loader.DefaultModelLoader._get_all_weights",
            mend_at_start,
            ("self", "model_config"),
        ),
    ),
)
