"""From what a person writes to where bytes come from: a path, or hf://org/name@revision."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from specdec.preflight.source import Source

HUB = "hf://"


def source_of(uri: str) -> Source:
    """A folder on this machine or a repository on the hub."""
    if uri.startswith(HUB):
        from specdec.cli.hub import HubRepository

        return HubRepository.named(uri.removeprefix(HUB))
    from specdec.preflight.source import LocalFolder

    return LocalFolder(Path(uri))
