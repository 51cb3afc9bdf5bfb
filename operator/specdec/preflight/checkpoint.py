"""Checkpoints for those who can't go on with an unsound one: what blocks a reading is raised."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from specdec.preflight import reading
from specdec.preflight.finding import Severity
from specdec.preflight.reading import CONFIG
from specdec.preflight.source import LocalFolder, UnreadableError

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["CONFIG", "CheckpointRefusedError", "read_config", "refusal"]


class CheckpointRefusedError(Exception):
    """A checkpoint can't be used; `reason` is CamelCase, the text one sentence."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason

    @classmethod
    def of(cls, error: UnreadableError) -> CheckpointRefusedError:
        """Refuse what can't be read."""
        return cls(error.code, str(error))


def refusal(found: reading.Reading) -> CheckpointRefusedError | None:
    """Say what keeps a folder that was read from being used: its config, index or a header; None if nothing does."""
    blocking = (one for one in found.findings if one.severity is Severity.ERROR)
    first = next(blocking, None)
    return CheckpointRefusedError(first.code, first.sentence) if first else None


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
