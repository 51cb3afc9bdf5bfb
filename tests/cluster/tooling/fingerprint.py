"""Has it been made from these inputs already?"""

import hashlib
from collections.abc import Iterable
from pathlib import Path


def of_files(paths: Iterable[Path], *more: str) -> str:
    """Hash the names (last three parts, so that a checkout may move) and contents of files and folders."""
    digest = hashlib.sha256()
    for text in more:
        digest.update(f"{text}\0".encode())
    for file in sorted(_files(paths)):
        digest.update(f"{'/'.join(file.parts[-3:])}\0{file.stat().st_mode & 0o100}\0".encode())
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()[:24]


def _files(paths: Iterable[Path]) -> Iterable[Path]:
    for path in paths:
        if path.is_dir():
            yield from (
                file for file in path.rglob("*") if file.is_file() and "__pycache__" not in file.parts
            )
        else:
            yield path


def is_current(stamp: Path, value: str) -> bool:
    """Tell whether the stamp beside a made thing says that it was made from these inputs."""
    return stamp.is_file() and stamp.read_text() == value
