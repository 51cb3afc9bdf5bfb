"""Where a checkpoint's bytes come from: a local folder here, the Hugging Face hub in the CLI."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Protocol

from specdec.preflight.finding import MOST, printable


class UnreadableError(Exception):
    """A file can't be used; `code` is the finding's."""

    def __init__(self, code: str, found: str, expected: str, hint: str) -> None:
        found = printable(found, MOST)
        super().__init__(f"{found}, expected {expected}: {hint}")
        self.code = code
        self.found = found
        self.expected = expected
        self.hint = hint


class UnreachableError(UnreadableError):
    """A model's place did not answer: nothing is known of the model, so nothing is its fault."""

    def __init__(self, found: str, hint: str) -> None:
        super().__init__("HubUnreachable", found, "an answer", hint)


class Source(Protocol):
    """A flat folder of files, read in pieces."""

    @property
    def label(self) -> str:
        """How people name it."""

    def sizes(self) -> dict[str, int]:
        """Names and sizes of its files.

        Raises
        ------
        UnreadableError
            It can't be listed.
        """

    def read(self, name: str, start: int, count: int) -> bytes:
        """Read a piece of a file; shorter at its end.

        Raises
        ------
        UnreadableError
            It can't be read.
        """


class LocalFolder:
    """A folder on this machine; links must stay inside (or lead into the same hub cache)."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def label(self) -> str:
        """The path as given."""
        return str(self.folder)

    def sizes(self) -> dict[str, int]:
        """Names and sizes of all but its folders, links resolved; what is no regular file can't be read, but is named."""
        try:
            if not self.folder.is_dir():
                raise UnreadableError(
                    "FileMissing", f"{self.folder} is no folder", "a model's folder", "check the path"
                )
            found = {}
            for entry in sorted(self.folder.iterdir()):
                status = _status(entry)
                if status is not None and not stat.S_ISDIR(status.st_mode):
                    found[entry.name] = status.st_size if stat.S_ISREG(status.st_mode) else 0
        except OSError as error:
            raise unreadable(self.folder, error) from error
        return found

    def read(self, name: str, start: int, count: int) -> bytes:
        """Read a piece of a file whose link, if it is one, stays inside."""
        path = self.folder / name
        if path.is_symlink():
            followed(self.folder, path)
        try:
            # Without O_NONBLOCK a FIFO would hold the reader until somebody writes.
            with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
                if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                    raise UnreadableError(
                        "NotReadable",
                        f"{path} is a device, a pipe or a socket",
                        "a regular file",
                        "copy the model again",
                    )
                file.seek(start)
                return file.read(count)
        except OSError as error:
            raise unreadable(path, error) from error


def followed(folder: Path, path: Path) -> Path:
    """Follow a file's links to their end, which must lie in its folder or among the blobs of the same hub cache.

    Raises
    ------
    UnreadableError
        They lead elsewhere.
    """
    # Unlike Path.resolve, this does not raise on a link to itself.
    root, target = (Path(os.path.realpath(place)) for place in (folder, path))
    # huggingface_hub keeps files as models--ORG--NAME/snapshots/REVISION/FILE -> ../../blobs/SHA. Without the name, a
    # claim that is called snapshots would open the one beside it.
    cache = root.parent.parent
    cached = root.parent.name == "snapshots" and cache.name.startswith("models--")
    if not target.is_relative_to(root) and not (cached and target.is_relative_to(cache / "blobs")):
        raise UnreadableError(
            "LinkOutsideFolder",
            f"{path} leads to {target}",
            "files inside the model's folder",
            "copy the file into it",
        )
    return target


def _status(path: Path) -> os.stat_result | None:
    """What a path leads to, or the link itself if it leads in a circle; None for a dangling one, which is missing."""
    try:
        return path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError:
        return path.lstat()


def unreadable(path: Path, error: OSError) -> UnreadableError:
    """Say why a file can't be read."""
    if isinstance(error, FileNotFoundError):
        return UnreadableError("FileMissing", f"{path} does not exist", "it to be there", "check the path")
    reason = "no permission" if isinstance(error, PermissionError) else (error.strerror or str(error))
    return UnreadableError(
        "NotReadable",
        f"{path} can't be read ({reason})",
        "a readable file",
        "check its mode, owner and volume",
    )
