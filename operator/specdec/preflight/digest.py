"""Naming contents: a drafter by every byte, a target by its headers and sizes.

`python -m specdec.preflight.digest FOLDER` prints a drafter's digest. The agent runs it so, at low
priority: hashing gigabytes must take neither its event loop nor a core from the engine.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Callable
from pathlib import Path

from specdec.preflight.checkpoint import CheckpointRefusedError
from specdec.preflight.header import TARGET, raw_header
from specdec.preflight.overlay import canonical
from specdec.preflight.reading import no_weights, read_config, shards
from specdec.preflight.source import LocalFolder, UnreadableError

CHUNK = 4 << 20


def content_digest(folder: Path) -> str:
    """Hash a checkpoint's config and every byte of its weights.

    Raises
    ------
    CheckpointRefusedError
        It can't be read.
    """
    return _digest(folder, _contents)


def header_digest(folder: Path) -> str:
    """Hash a checkpoint's config, tensor headers and file sizes: a target of 600 GB is read too seldom for more.

    Raises
    ------
    CheckpointRefusedError
        It can't be read.
    """
    return _digest(folder, _header)


def _digest(folder: Path, part: Callable[[LocalFolder, str, int], bytes]) -> str:
    source = LocalFolder(folder)
    try:
        files = source.sizes()
        total = hashlib.sha256(canonical(read_config(source, files)))
        weights = shards(files)
        if not weights:
            raise no_weights(source, files)
        for file in weights:
            total.update(b"\0" + os.fsencode(file) + b"\0" + part(source, file, files[file]))
    except UnreadableError as error:
        raise CheckpointRefusedError.of(error) from error
    return f"sha256:{total.hexdigest()}"


def _contents(source: LocalFolder, file: str, _size: int) -> bytes:
    one, place = hashlib.sha256(), 0
    while chunk := source.read(file, place, CHUNK):
        one.update(chunk)
        place += len(chunk)
    return one.hexdigest().encode()


def _header(source: LocalFolder, file: str, size: int) -> bytes:
    return f"{size}\0".encode() + raw_header(source, file, size, TARGET)


def main() -> int:
    """Print the content digest of the folder named on the command line."""
    # Low, not lowest: a busy engine on few cores would keep a swap waiting for its digest.
    os.nice(5)
    try:
        sys.stdout.write(content_digest(Path(sys.argv[1])) + "\n")
    except (CheckpointRefusedError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
