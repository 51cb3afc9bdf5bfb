"""Staging a drafter: an overlay folder that SGLang loads from, and the digest of what it will load.

The overlay holds the normalised config.json, the rules that the plugin applies to the tensors
(`overlay.json`, where there are any) and links to the weights; the source is never written. A
folder whose contents change under its path is refused: the revision named other weights.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from specdec.engine.agent.failures import CHANGED
from specdec.engine.agent.judging import STANDARD, Judged, explained, judged
from specdec.engine.agent.plan import keep, write_whole
from specdec.preflight.checkpoint import CONFIG, CheckpointRefusedError, refusal
from specdec.preflight.index import INDEX
from specdec.preflight.loading import OVERLAY
from specdec.preflight.overlay import canonical, read_by_engines
from specdec.preflight.reading import read_drafter, shards
from specdec.preflight.source import LocalFolder, UnreadableError, followed

if TYPE_CHECKING:
    from specdec.api.preflight import Preflight
    from specdec.engine.agent.judging import Surroundings
    from specdec.engine.protocol import DrafterRef
    from specdec.preflight.report import Report

DIGESTS_FILE = "digests.json"
KEPT_DIGESTS = 64
DIGEST_SECONDS = 600.0
"""Deadline for hashing one drafter: a few GB from a claim take well under a minute."""
KILL_SECONDS = 2.0

Stamps = tuple[tuple[str, int, int, int], ...]
"""Name, size, time of the last change in ns, and inode of each file of a folder."""


@dataclass(frozen=True)
class Overlay:
    """A drafter, staged."""

    folder: Path
    source: Path
    drafter: DrafterRef
    repairs: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    """Arguments that SGLang needs for this drafter."""
    environment: frozenset[tuple[str, str]] = frozenset()
    report: Report | None = None
    """What the preflight found; None if it did not judge."""
    stamps: Stamps = ()
    """The source's files before anything of them was read."""


def inside(models: Path, path: str) -> Path:
    """Resolve a model's folder, which must lie below the mounted claims.

    Raises
    ------
    CheckpointRefusedError
        It lies elsewhere or does not exist.
    """
    folder = _real(Path(path))
    if not Path(path).is_absolute() or not folder.is_relative_to(_real(models)):
        raise CheckpointRefusedError(
            "PathOutsideModels", f"{path} is not below {models}: name a folder of a mounted claim"
        )
    if not folder.is_dir():
        circle = ", but a link that leads in a circle" if folder.is_symlink() else ""
        raise CheckpointRefusedError(
            "FileMissing", f"{path} is no folder{circle}: check the claim and the path"
        )
    return folder


def _real(path: Path) -> Path:
    """Follow all links; Path.resolve raises RuntimeError on one that leads in a circle, before Python 3.13."""
    return Path(os.path.realpath(path))


def make_overlay(
    state: Path,
    models: Path,
    drafter: DrafterRef,
    around: Surroundings | None = None,
    wish: Preflight = STANDARD,
) -> Overlay:
    """Check a drafter's folder and link it into an overlay; blocking file work, so run it in a thread.

    Raises
    ------
    CheckpointRefusedError
        The folder can't be served as it is.
    """
    source = inside(models, drafter.path)
    stamps = stamped(source)
    read = read_drafter(LocalFolder(source))
    if (refused := refusal(read)) is not None:
        raise explained(refused, read, around, wish, drafter.layers) if around else refused
    found = judged(read, around, wish, drafter.layers) if around else Judged(read.config or {})
    links = {name: _within(source, source / name) for name in shards(read.files)}
    if (source / INDEX).exists():
        links[INDEX] = _within(source, source / INDEX)
    _within(source, source / CONFIG)
    name = hashlib.sha256(f"{drafter.revision}\0{source}".encode()).hexdigest()[:16]
    folder = state / "overlays" / name
    folder.mkdir(parents=True, exist_ok=True)
    for stale in folder.iterdir():
        if stale.name not in links and stale.name != CONFIG:
            stale.unlink()
    for link, target in links.items():
        draft = folder / f".{link}.new"
        draft.unlink(missing_ok=True)
        draft.symlink_to(target)
        draft.replace(folder / link)
    if not found.rules.empty:
        write_whole(folder / OVERLAY, canonical(found.rules.to_json()))
    write_whole(folder / CONFIG, canonical(read_by_engines(found.config)))
    environment = frozenset(found.environment.items())
    return Overlay(folder, source, drafter, found.repairs, found.arguments, environment, found.report, stamps)


def stamped(folder: Path) -> Stamps:
    """Stamp a folder's files, links followed; what can't be looked at has no stamp.

    Raises
    ------
    CheckpointRefusedError
        The folder can't be listed.
    """
    stamps = []
    try:
        for path in sorted(folder.iterdir()):
            with contextlib.suppress(OSError):
                now = path.stat()
                stamps.append((path.name, now.st_size, now.st_mtime_ns, now.st_ino))
    except OSError as error:
        raise CheckpointRefusedError(
            "FileMissing", f"{folder} can't be listed ({error.strerror}): check the path"
        ) from error
    return tuple(stamps)


def unchanged(overlay: Overlay) -> None:
    """Refuse a drafter whose files changed while they were read: checks, weights and digest may be of different ones.

    Raises
    ------
    CheckpointRefusedError
        They did.
    """
    differing = {stamp[0] for stamp in set(overlay.stamps) ^ set(stamped(overlay.source))}
    if differing:
        raise CheckpointRefusedError(
            CHANGED,
            f"{min(differing)} in {overlay.source} changed while it was staged, expected a finished copy: "
            "it is staged again when it is named again",
        )


def _within(source: Path, file: Path) -> Path:
    try:
        return followed(source, file)
    except UnreadableError as error:
        raise CheckpointRefusedError.of(error) from error


async def content_digest(overlay: Overlay) -> str:
    """Hash the drafter in a child process of low priority.

    Raises
    ------
    CheckpointRefusedError
        It can't be read to its end in time.
    """
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "specdec.preflight.digest", str(overlay.source),
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        out, err = await asyncio.wait_for(child.communicate(), DIGEST_SECONDS)
    except TimeoutError as error:
        raise CheckpointRefusedError(
            "DigestTimedOut",
            f"hashing {overlay.source} took longer than {DIGEST_SECONDS:.0f} s: check the volume's speed",
        ) from error
    finally:
        if child.returncode is None:
            child.kill()
            # A process that hangs in a read of a dead volume can't even be killed.
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(child.wait(), KILL_SECONDS)
    if child.returncode:
        sentence = err.decode(errors="replace").strip().rpartition("\n")[2]
        raise CheckpointRefusedError("NotReadable", sentence or f"{overlay.source} could not be hashed")
    return out.decode().strip()


def same_contents(state: Path, drafter: DrafterRef, digest: str) -> None:
    """Refuse a folder whose digest differs from when this revision was first staged; remember a first one.

    Raises
    ------
    CheckpointRefusedError
        The folder was changed under its path.
    StateNotWrittenError
        A first digest could not be written down.
    """
    path = state / DIGESTS_FILE
    try:
        known: dict[str, str] = json.loads(path.read_bytes())
    except (OSError, ValueError):
        known = {}
    key = f"{drafter.revision}@{drafter.path}"
    first = known.get(key)
    if first is None:
        known[key] = digest
        keep(path, json.dumps(dict(list(known.items())[-KEPT_DIGESTS:])).encode())
    elif first != digest:
        raise CheckpointRefusedError(
            "DigestChanged",
            f"{drafter.path} now has {digest}, revision {drafter.revision} was first staged with {first}: "
            "put new weights into a new folder",
        )
