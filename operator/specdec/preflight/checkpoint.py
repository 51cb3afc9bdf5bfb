"""Checkpoints for those who can't go on with an unsound one: what blocks a reading is raised."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from specdec.preflight import reading
from specdec.preflight.finding import Severity
from specdec.preflight.reading import CONFIG
from specdec.preflight.source import LocalFolder, UnreadableError

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["CONFIG", "Checkpoint", "CheckpointRefusedError", "read_checkpoint", "read_config"]


class CheckpointRefusedError(Exception):
    """A checkpoint can't be used; `reason` is CamelCase, the text one sentence."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason

    @classmethod
    def of(cls, error: UnreadableError) -> CheckpointRefusedError:
        """Refuse what can't be read."""
        return cls(error.code, str(error))


@dataclass(frozen=True)
class Checkpoint:
    """A drafter's folder whose config, index and headers hold what they promise."""

    folder: Path
    config: dict[str, Any]
    files: tuple[Path, ...]
    """The safetensors files, sorted by name."""


def read_checkpoint(folder: Path) -> Checkpoint:
    """Read a drafter's config and the headers of all its safetensors files.

    Raises
    ------
    CheckpointRefusedError
        The folder, its config or a header is missing, unreadable or malformed.
    """
    found = reading.read_drafter(LocalFolder(folder))
    for finding in found.findings:
        if finding.severity is Severity.ERROR:
            raise CheckpointRefusedError(finding.code, finding.sentence)
    return Checkpoint(
        folder, found.config or {}, tuple(folder / name for name in reading.shards(found.files))
    )


def read_config(folder: Path) -> dict[str, Any]:
    """Read config.json as one JSON object.

    Raises
    ------
    CheckpointRefusedError
        It is missing, unreadable or no such object.
    """
    source = LocalFolder(folder)
    try:
        return reading.read_config(source, source.sizes())
    except UnreadableError as error:
        raise CheckpointRefusedError.of(error) from error
