"""Naming contents: a drafter by every byte, a target by its headers and sizes.

`python -m specdec.preflight.digest FOLDER` prints a drafter's digest. The agent runs it so, at low
priority: hashing gigabytes must take neither its event loop nor a core from the engine.
"""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path

from specdec.preflight.checkpoint import CheckpointRefusedError, read_config, read_header, weight_files
from specdec.preflight.overlay import canonical

CHUNK = 4 << 20


def content_digest(folder: Path) -> str:
    """Hash a checkpoint's config and every byte of its weights."""
    total = hashlib.sha256(canonical(read_config(folder)))
    for file in weight_files(folder):
        one = hashlib.sha256()
        with file.open("rb") as weights:
            while chunk := weights.read(CHUNK):
                one.update(chunk)
        total.update(f"\0{file.name}\0{one.hexdigest()}".encode())
    return f"sha256:{total.hexdigest()}"


def header_digest(folder: Path) -> str:
    """Hash a checkpoint's config, tensor headers and file sizes: a target of 600 GB is read too seldom for more."""
    total = hashlib.sha256(canonical(read_config(folder)))
    for file in weight_files(folder):
        header, size = read_header(file)
        total.update(f"\0{file.name}\0{size}\0".encode() + header)
    return f"sha256:{total.hexdigest()}"


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
