"""What the watches have shown: the newest version of every object, found by its server.

Thousands of objects are kept, and a pass reads each of its few now and then. So they are packed text, told by how it
differs from the first object of its kind, without what nothing here reads: other managers' lists of fields, and of
pods all but how they are.
"""

from __future__ import annotations

import sys
import zlib
from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple

from pydantic_core import from_json, to_json

from specdec.controller.kinds import CHILDREN, KINDS, POD, SPEC_DECODE_SERVER, Kind
from specdec.resources.labels import OPERATOR

Manifest = dict[str, Any]
Key = tuple[str, str]
"""Namespace and name of a server."""

Place = tuple[str, str]
"""Namespace and name of any object."""

_LABELS = {kind.kind: kind.label for kind in CHILDREN}


def server_of(manifest: Manifest) -> Key | None:
    """Server that an object belongs to: itself, or the one in its label."""
    metadata = manifest["metadata"]
    if manifest["kind"] == SPEC_DECODE_SERVER.kind:
        return _place(metadata["namespace"], metadata["name"])
    name = metadata.get("labels", {}).get(_LABELS.get(manifest["kind"], ""))
    return _place(metadata["namespace"], name) if name else None


def _place(namespace: str, name: str) -> Place:
    return sys.intern(namespace), sys.intern(name)


class Kept(NamedTuple):
    """One object, and what is asked of it without reading it."""

    uid: str
    version: str
    server: Key | None
    ending: bool
    """It is on its way out."""
    content: Manifest | bytes
    like: bytes = b""
    """What packed text was packed with."""

    def manifest(self) -> Manifest:
        """Read it."""
        if not isinstance(self.content, bytes):
            return self.content
        parsed: Manifest = from_json(zlib.decompressobj(zdict=self.like).decompress(self.content))
        return parsed


def _text(manifest: Manifest) -> bytes:
    metadata = manifest["metadata"]
    if "managedFields" in metadata:
        ours = [entry for entry in metadata["managedFields"] if entry.get("manager") == OPERATOR]
        manifest = {**manifest, "metadata": {**metadata, "managedFields": ours}}
    return to_json(manifest)


def _packed(text: bytes, like: bytes) -> bytes:
    """Pack by what another text says, too: objects of a kind differ in names, times and a few values."""
    packer = zlib.compressobj(1, zdict=like)
    return packer.compress(text) + packer.flush()


def _pod(manifest: Manifest) -> Manifest:
    """Leave out a pod's spec and most of its status; it stays an object, for it is read several times a second."""
    metadata = {key: value for key, value in manifest["metadata"].items() if key in _POD_METADATA}
    status = {key: value for key, value in manifest.get("status", {}).items() if key in _POD_STATUS}
    rest = {key: value for key, value in manifest.items() if key != "spec"}
    return {**rest, "metadata": metadata, "status": status}


_POD_METADATA = {
    "name", "namespace", "uid", "resourceVersion", "creationTimestamp", "deletionTimestamp", "labels",
    "ownerReferences",
}  # fmt: skip
_POD_STATUS = {"podIP", "conditions", "containerStatuses"}


class Store:
    """Newest known objects; own writes go in at once, so that a pass sees what the last one did."""

    def __init__(self) -> None:
        self._objects: dict[str, dict[Place, Kept]] = {kind: {} for kind in KINDS}
        self._members: dict[Key, list[tuple[str, Place]]] = {}
        self._versions: Counter[str] = Counter()
        self._echoes: Counter[Key] = Counter()
        self._first: dict[str, bytes] = {}
        """The first object of each kind, as text."""

    def server_now(self, manifest: Manifest) -> Key | None:
        """Server that an object is kept for, whatever its newer version says."""
        kind, place = _address(manifest)
        known = self._objects[kind].get(place)
        return known.server if known is not None else None

    def answered(self, manifest: Manifest) -> None:
        """Take what a write of ours was answered with; where a watch was quicker, that news was an echo."""
        kind, place = _address(manifest)
        known = self._objects[kind].get(place)
        if known is None or known.version != manifest["metadata"]["resourceVersion"]:
            self.put(manifest)
        elif known.server is not None:
            self._echoes[known.server] += 1

    def echoes(self, server: Key) -> int:
        """Count the news of a server, since the last call, that were echoes of our own writes."""
        return self._echoes.pop(server, 0)

    def put(self, manifest: Manifest) -> bool:
        """Take a version, unless a newer one is known; says whether it was news."""
        kind, place = _address(manifest)
        known = self._objects[kind].get(place)
        if known is not None and not newer(manifest["metadata"]["resourceVersion"], known.version):
            return False
        now = self._objects[kind][place] = self._kept(kind, manifest)
        self._versions[kind] += 1
        before = known.server if known is not None else None
        if before != now.server:  # new, or someone has changed its label
            self._leave(before, kind, place)
            if now.server is not None:
                self._members.setdefault(now.server, []).append((kind, place))
        return True

    def _kept(self, kind: str, manifest: Manifest) -> Kept:
        metadata = manifest["metadata"]
        known = (
            metadata["uid"],
            metadata["resourceVersion"],
            server_of(manifest),
            "deletionTimestamp" in metadata,
        )
        if kind == POD.kind:
            return Kept(*known, _pod(manifest))
        text = _text(manifest)
        like = self._first.setdefault(kind, text)
        return Kept(*known, _packed(text, like), like)

    def drop(self, manifest: Manifest) -> None:
        """Forget a deleted object; a namesake that was made since stays."""
        kind, place = _address(manifest)
        known = self._objects[kind].get(place)
        if known is not None and known.uid == manifest["metadata"]["uid"]:
            self._forget(kind, place, known)

    def absent(self, kind: Kind, namespace: str, listed: set[Place], version: str) -> set[Key]:
        """Forget what a list of that version lacks, made since apart; returns the servers that it belonged to."""
        gone = [
            (place, known)
            for place, known in self._objects[kind.kind].items()
            if namespace in ("", place[0]) and place not in listed and not newer(known.version, version)
        ]
        for place, known in gone:
            self._forget(kind.kind, place, known)
        return {known.server for _, known in gone if known.server is not None}

    def _forget(self, kind: str, place: Place, known: Kept) -> None:
        del self._objects[kind][place]
        self._versions[kind] += 1
        self._leave(known.server, kind, place)

    def _leave(self, server: Key | None, kind: str, place: Place) -> None:
        """Take an object out of a server's."""
        if server is None:
            return
        members = self._members[server]
        members.remove((kind, place))
        if not members:
            del self._members[server]

    def get(self, kind: Kind, namespace: str, name: str) -> Manifest | None:
        """Look one object up."""
        known = self._objects[kind.kind].get((namespace, name))
        return known.manifest() if known else None

    def version_of(self, kind: Kind, namespace: str, name: str) -> str:
        """Version of one object; "" if there is none."""
        known = self._objects[kind.kind].get((namespace, name))
        return known.version if known else ""

    def server(self, key: Key) -> Manifest | None:
        """Look a server up."""
        return self.get(SPEC_DECODE_SERVER, *key)

    def wanted(self, key: Key) -> str | None:
        """UID of a server that is there and not on its way out."""
        known = self._objects[SPEC_DECODE_SERVER.kind].get(key)
        return known.uid if known is not None and not known.ending else None

    def children(self, kind: Kind, key: Key) -> list[Manifest]:
        """Objects of a kind that belong to a server, by name."""
        found = sorted(place for of, place in self._members.get(key, ()) if of == kind.kind)
        return [self._objects[kind.kind][place].manifest() for place in found]

    def version(self, kind: Kind) -> int:
        """Count a kind's changes: who looks often need not look at everything."""
        return self._versions[kind.kind]

    def known(self, kind: Kind) -> Mapping[Place, Kept]:
        """Every object of a kind, by namespace and name."""
        return self._objects[kind.kind]


def _address(manifest: Manifest) -> tuple[str, Place]:
    metadata = manifest["metadata"]
    return KINDS[manifest["kind"]].kind, _place(metadata["namespace"], metadata["name"])


def newer(new: str, old: str) -> bool:
    """Compare resource versions as numbers where both are (they are, since etcd's revision is)."""
    return int(new) > int(old) if new.isdigit() and old.isdigit() else new != old
