"""What the watches have shown: the newest version of every object, found by its server."""

from __future__ import annotations

from collections import Counter
from typing import Any

from specdec.controller.kinds import CHILDREN, KINDS, SPEC_DECODE_SERVER, Kind

Manifest = dict[str, Any]
Key = tuple[str, str]
"""Namespace and name of a server."""

_LABELS = {kind.kind: kind.label for kind in CHILDREN}


def server_of(manifest: Manifest) -> Key | None:
    """Server that an object belongs to: itself, or the one in its label."""
    metadata = manifest["metadata"]
    if manifest["kind"] == SPEC_DECODE_SERVER.kind:
        return metadata["namespace"], metadata["name"]
    name = metadata.get("labels", {}).get(_LABELS.get(manifest["kind"], ""))
    return (metadata["namespace"], name) if name else None


class Store:
    """Newest known objects; own writes go in at once, so that a pass sees what the last one did."""

    def __init__(self) -> None:
        self._objects: dict[tuple[str, str, str], Manifest] = {}
        self._members: dict[Key, set[tuple[str, str, str]]] = {}
        self._versions: Counter[str] = Counter()

    def put(self, manifest: Manifest) -> bool:
        """Take a version, unless a newer one is known; says whether it was news."""
        address = _address(manifest)
        known = self._objects.get(address)
        if known is not None and not _newer(manifest, known):
            return False
        self._objects[address] = manifest
        self._versions[address[0]] += 1
        if (server := server_of(manifest)) is not None:
            self._members.setdefault(server, set()).add(address)
        return True

    def drop(self, manifest: Manifest) -> None:
        """Forget a deleted object; a namesake that was made since stays."""
        address = _address(manifest)
        known = self._objects.get(address)
        if known is None or known["metadata"]["uid"] != manifest["metadata"]["uid"]:
            return
        del self._objects[address]
        self._versions[address[0]] += 1
        if (server := server_of(known)) is not None:
            members = self._members.get(server, set())
            members.discard(address)
            if not members:
                self._members.pop(server, None)

    def get(self, kind: Kind, namespace: str, name: str) -> Manifest | None:
        """Look one object up."""
        return self._objects.get((kind.kind, namespace, name))

    def server(self, key: Key) -> Manifest | None:
        """Look a server up."""
        return self.get(SPEC_DECODE_SERVER, *key)

    def children(self, kind: Kind, key: Key) -> list[Manifest]:
        """Objects of a kind that belong to a server, by name."""
        found = sorted(address for address in self._members.get(key, ()) if address[0] == kind.kind)
        return [self._objects[address] for address in found]

    def version(self, kind: Kind) -> int:
        """Count a kind's changes: who looks often need not look at everything."""
        return self._versions[kind.kind]

    def all(self, kind: Kind) -> list[Manifest]:
        """Every object of a kind."""
        return [item for address, item in self._objects.items() if address[0] == kind.kind]


def _address(manifest: Manifest) -> tuple[str, str, str]:
    metadata = manifest["metadata"]
    return KINDS[manifest["kind"]].kind, metadata["namespace"], metadata["name"]


def _newer(manifest: Manifest, known: Manifest) -> bool:
    """Compare resource versions as numbers where both are (they are, since etcd's revision is)."""
    new, old = manifest["metadata"]["resourceVersion"], known["metadata"]["resourceVersion"]
    return int(new) > int(old) if new.isdigit() and old.isdigit() else bool(new != old)
