"""What the watches have shown: the newest version of every object, found by its server.

What we apply ourselves is kept as text: a pass reads it now and then, and a parsed object takes ten times as much.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import Any, NamedTuple

from specdec.controller.kinds import CHILDREN, KINDS, POD, SPEC_DECODE_SERVER, Kind

Manifest = dict[str, Any]
Key = tuple[str, str]
"""Namespace and name of a server."""

_PARSED = {SPEC_DECODE_SERVER.kind, POD.kind}
"""Kinds that change and are read all the time."""
_LABELS = {kind.kind: kind.label for kind in CHILDREN}


def server_of(manifest: Manifest) -> Key | None:
    """Server that an object belongs to: itself, or the one in its label."""
    metadata = manifest["metadata"]
    if manifest["kind"] == SPEC_DECODE_SERVER.kind:
        return metadata["namespace"], metadata["name"]
    name = metadata.get("labels", {}).get(_LABELS.get(manifest["kind"], ""))
    return (metadata["namespace"], name) if name else None


class _Kept(NamedTuple):
    """One object, and what is asked of it without reading it."""

    uid: str
    version: str
    server: Key | None
    content: Manifest | bytes

    def manifest(self) -> Manifest:
        parsed: Manifest = json.loads(self.content) if isinstance(self.content, bytes) else self.content
        return parsed


class Store:
    """Newest known objects; own writes go in at once, so that a pass sees what the last one did."""

    def __init__(self) -> None:
        self._objects: dict[tuple[str, str, str], _Kept] = {}
        self._members: dict[Key, set[tuple[str, str, str]]] = {}
        self._versions: Counter[str] = Counter()

    def put(self, manifest: Manifest) -> bool:
        """Take a version, unless a newer one is known; says whether it was news."""
        address, version = _address(manifest), manifest["metadata"]["resourceVersion"]
        known = self._objects.get(address)
        if known is not None and not _newer(version, known.version):
            return False
        server = server_of(manifest)
        content = manifest if address[0] in _PARSED else json.dumps(manifest).encode()
        self._objects[address] = _Kept(manifest["metadata"]["uid"], version, server, content)
        self._versions[address[0]] += 1
        if server is not None:
            self._members.setdefault(server, set()).add(address)
        return True

    def drop(self, manifest: Manifest) -> None:
        """Forget a deleted object; a namesake that was made since stays."""
        address = _address(manifest)
        known = self._objects.get(address)
        if known is None or known.uid != manifest["metadata"]["uid"]:
            return
        del self._objects[address]
        self._versions[address[0]] += 1
        if known.server is not None:
            members = self._members.get(known.server, set())
            members.discard(address)
            if not members:
                self._members.pop(known.server, None)

    def get(self, kind: Kind, namespace: str, name: str) -> Manifest | None:
        """Look one object up."""
        known = self._objects.get((kind.kind, namespace, name))
        return known.manifest() if known else None

    def server(self, key: Key) -> Manifest | None:
        """Look a server up."""
        return self.get(SPEC_DECODE_SERVER, *key)

    def children(self, kind: Kind, key: Key) -> list[Manifest]:
        """Objects of a kind that belong to a server, by name."""
        found = sorted(address for address in self._members.get(key, ()) if address[0] == kind.kind)
        return [self._objects[address].manifest() for address in found]

    def version(self, kind: Kind) -> int:
        """Count a kind's changes: who looks often need not look at everything."""
        return self._versions[kind.kind]

    def all(self, kind: Kind) -> list[Manifest]:
        """Every object of a kind."""
        return [item.manifest() for address, item in self._objects.items() if address[0] == kind.kind]


def _address(manifest: Manifest) -> tuple[str, str, str]:
    metadata = manifest["metadata"]
    return KINDS[manifest["kind"]].kind, metadata["namespace"], metadata["name"]


def _newer(new: str, old: str) -> bool:
    """Compare resource versions as numbers where both are (they are, since etcd's revision is)."""
    return int(new) > int(old) if new.isdigit() and old.isdigit() else new != old
