"""SGLang's wheels: fetched once, read as zip files, never installed."""

from __future__ import annotations

import ast
import functools
import os
import subprocess
import sys
import zipfile
from pathlib import Path

PREFIX = "sglang/srt/"
FETCH_SECONDS = 600


class WheelUnavailableError(Exception):
    """A wheel can't be fetched."""


class Wheel:
    """Source files of one SGLang wheel."""

    def __init__(self, version: str, path: Path) -> None:
        self.version = version
        self._zip = zipfile.ZipFile(path)
        self._names = frozenset(self._zip.namelist())

    def files(self, folder: str) -> tuple[str, ...]:
        """Python files below a folder of sglang/srt."""
        below = f"{PREFIX}{folder}"
        return tuple(
            sorted(
                name.removeprefix(PREFIX)
                for name in self._names
                if name.startswith(below) and name.endswith(".py")
            )
        )

    @functools.lru_cache(maxsize=64)  # noqa: B019 - a probe run holds a handful of wheels
    def source(self, path: str) -> str:
        """Text of a file of sglang/srt; empty if it does not exist."""
        name = f"{PREFIX}{path}"
        return self._zip.read(name).decode() if name in self._names else ""

    def function(self, path: str, name: str) -> str:
        """Text of the first function or method of that name; empty if there is none."""
        text = self.source(path)
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef) and node.name == name:
                return "\n".join(text.splitlines()[node.lineno - 1 : node.end_lineno])
        return ""


def cache_folder() -> Path:
    """Where wheels are kept."""
    return Path(os.environ.get("SPECDEC_CACHE", Path.home() / ".cache" / "specdec")) / "wheels"


def fetch(version: str) -> Wheel:
    """Take a version's wheel from the cache, else from the package index that pip is set up for.

    Raises
    ------
    WheelUnavailableError
        pip could not get it.
    """
    folder = cache_folder()
    folder.mkdir(parents=True, exist_ok=True)
    kept = _kept(folder, version)
    if kept is None:
        _download(folder, version)
        kept = _kept(folder, version)
    if kept is None:
        raise WheelUnavailableError(f"{folder} holds no wheel of sglang {version} after pip's download")
    return Wheel(version, kept)


def _kept(folder: Path, version: str) -> Path | None:
    return next(iter(sorted(folder.glob(f"sglang-{version}-*.whl"))), None)


def _download(folder: Path, version: str) -> None:
    command = [
        *_pip(), "download", "--quiet", "--no-deps", "--only-binary=:all:", "--python-version=3.11",
        "--platform=manylinux_2_34_x86_64", "--dest", str(folder), f"sglang=={version}",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=FETCH_SECONDS, check=False)  # noqa: S603
    if done.returncode:
        last = done.stderr.strip().rpartition("\n")[2]
        raise WheelUnavailableError(f"pip can't fetch sglang {version}: {last}")


def _pip() -> list[str]:
    """Find an interpreter with pip: the locked environment has none of its own."""
    for python in (sys.executable, str(Path(sys.base_prefix) / "bin" / "python3"), "python3"):
        command = [python, "-m", "pip"]
        try:
            found = subprocess.run([*command, "--version"], capture_output=True, timeout=60, check=False)  # noqa: S603
        except OSError:
            continue
        if found.returncode == 0:
            return command
    raise WheelUnavailableError("no python3 with pip was found to fetch wheels with")
