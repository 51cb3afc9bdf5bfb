"""Reads layers out of the store of the daemon started here, so that a node gets only what it lacks.

`docker save` always writes all layers, to a temporary file first: minutes for an engine of 3 GB of which one small
layer changed. Docker keeps, beside each layer's unpacked files, the frame of the tar file that it came from
("tar-split"): headers and padding, with a gap for the content of each file. Filling the gaps gives that tar again, byte
for byte, which the importing side checks by its digest.
"""

import base64
import gzip
import hashlib
import json
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from .daemon import DATA
from .steps import run

STORE = DATA / "image" / "overlay2"
CHUNK = 1 << 20
FILE = 1
"""Type of a frame's entry that stands for a file's content; the other type carries bytes itself."""


def write_archive(image: str, present: set[str], archive: IO[bytes]) -> None:
    """Write the image as an OCI layout, without the layers whose digests are present on the other side."""
    identity = run("docker", "image", "inspect", "--format", "{{.Id}}", image).strip()
    config = (STORE / "imagedb" / "content" / identity.replace(":", "/")).read_bytes()
    digests = json.loads(config)["rootfs"]["diff_ids"]
    folders = dict(zip(digests, _layer_folders(digests), strict=True))
    sizes = {digest: _size(folder) for digest, folder in folders.items()}
    for digest, folder in folders.items():
        if digest not in present:
            _write(archive, _blob(digest), sizes[digest], _content(folder))
    manifest = _manifest(config, sizes)
    index = {"schemaVersion": 2, "manifests": [_descriptor("manifest", manifest, image)]}
    for name, content in {
        _blob(_digest(config)): config,
        _blob(_digest(manifest)): manifest,
        "index.json": json.dumps(index).encode(),
        "oci-layout": b'{"imageLayoutVersion":"1.0.0"}',
    }.items():
        _write(archive, name, len(content), iter([content]))
    archive.write(bytes(2 * tarfile.BLOCKSIZE))


def _manifest(config: bytes, sizes: dict[str, int]) -> bytes:
    media_type = "application/vnd.oci.image.layer.v1.tar"
    layers = [{"mediaType": media_type, "digest": digest, "size": size} for digest, size in sizes.items()]
    return json.dumps(
        {"schemaVersion": 2, "config": _descriptor("config", config), "layers": layers}
    ).encode()


def _descriptor(kind: str, content: bytes, name: str | None = None) -> dict[str, Any]:
    described = {
        "mediaType": f"application/vnd.oci.image.{kind}.v1+json",
        "digest": _digest(content),
        "size": len(content),
    }
    return {**described, "annotations": {"io.containerd.image.name": name}} if name else described


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _blob(digest: str) -> str:
    return f"blobs/{digest.replace(':', '/')}"


def _layer_folders(digests: list[str]) -> Iterator[Path]:
    """Find each layer's entry in Docker's database, which names it after the whole chain of layers below it."""
    chain = ""
    for digest in digests:
        chain = _digest(f"{chain} {digest}".encode()) if chain else digest
        yield STORE / "layerdb" / chain.replace(":", "/")


def _frame(folder: Path) -> Iterator[dict[str, Any]]:
    with gzip.open(folder / "tar-split.json.gz") as entries:
        yield from map(json.loads, entries)


def _size(folder: Path) -> int:
    return sum(
        entry.get("size", 0) if entry["type"] == FILE else len(base64.b64decode(entry["payload"]))
        for entry in _frame(folder)
    )


def _content(folder: Path) -> Iterator[bytes]:
    """Give the layer's tar again, piece by piece."""
    unpacked = DATA / "overlay2" / (folder / "cache-id").read_text() / "diff"
    for entry in _frame(folder):
        if entry["type"] != FILE:
            yield base64.b64decode(entry["payload"])
        elif entry.get("size"):
            with (unpacked / _name(entry)).open("rb") as file:
                while chunk := file.read(CHUNK):
                    yield chunk


def _name(entry: dict[str, Any]) -> str:
    raw = entry.get("name_raw")
    return base64.b64decode(raw).decode(errors="surrogateescape") if raw else entry["name"].removeprefix("/")


def _write(archive: IO[bytes], name: str, size: int, content: Iterator[bytes]) -> None:
    """Write one file of a tar archive."""
    header = tarfile.TarInfo(name)
    header.size = size
    archive.write(header.tobuf())
    for piece in content:
        archive.write(piece)
    archive.write(bytes(-size % tarfile.BLOCKSIZE))
