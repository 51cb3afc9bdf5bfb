"""An API server in memory, as far as the controller needs one: versions, conflicts, owners and a list of writes.

It stands in where time is virtual or faults are made on purpose; the real one is used in tests/cluster.
"""

from __future__ import annotations

import itertools
import uuid
from collections.abc import AsyncIterator
from typing import Any

from tests.support.merge import merged
from tests.support.serversideapply import applied, copied

from specdec.controller.kinds import KINDS, Kind
from specdec.controller.kube import ConflictError, KubeError

Manifest = dict[str, Any]


class FakeKube:
    """Has the methods of `specdec.controller.kube.Kube`."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str, str], Manifest] = {}
        self.applied: dict[tuple[str, str, str], Manifest] = {}
        """What was applied last, by object."""
        self.writes: list[tuple[str, str, str]] = []
        """Verb, kind (with subresource) and name of every write that changed something or failed."""
        self.failures: dict[str, KubeError] = {}
        """Errors by kind: what every write of it gets."""
        self.served: dict[tuple[str, str], Manifest] = {}
        """What pods answer through the API server's proxy, by name with port and path."""
        self.closed = False
        self._versions = itertools.count(1)

    def add(self, manifest: Manifest) -> Manifest:
        """Put an object there without counting a write."""
        stored = self._stamped(copied(manifest))
        self.objects[_address(stored)] = stored
        return copied(stored)

    async def get(self, kind: Kind, namespace: str, name: str) -> Manifest | None:
        return copied(self.objects.get((kind.kind, namespace, name)))

    async def list(
        self, kind: Kind, namespace: str = "", label: str = "", fields: str = ""
    ) -> list[Manifest]:
        return [
            copied(item)
            for (of, where, _), item in self.objects.items()
            if of == kind.kind and namespace in ("", where) and _labelled(item, label) and _fits(item, fields)
        ]

    async def pages(
        self, kind: Kind, namespace: str = "", label: str = "", fields: str = ""
    ) -> AsyncIterator[tuple[str, list[Manifest]]]:
        """All on one page."""
        version = max((int(item["metadata"]["resourceVersion"]) for item in self.objects.values()), default=0)
        yield str(version), await self.list(kind, namespace, label, fields)

    async def try_watch(self, kind: Kind, namespace: str = "", label: str = "") -> None:
        """Nothing is forbidden here."""

    async def create(
        self, kind: Kind, namespace: str, manifest: Manifest, *, dry_run: bool = False
    ) -> Manifest:
        if dry_run:
            self._fail("dry-run", kind)
            return copied(manifest)
        self._write("create", manifest)
        if _address(manifest) in self.objects:
            raise ConflictError("exists already", 409)
        return self.add(manifest)

    async def replace(
        self, kind: Kind, namespace: str, manifest: Manifest, *, dry_run: bool = False
    ) -> Manifest:
        if dry_run:
            self._fail("dry-run", kind)
            return copied(manifest)
        self._write("update", manifest)
        live = self.objects[_address(manifest)]
        if manifest["metadata"]["resourceVersion"] != live["metadata"]["resourceVersion"]:
            raise ConflictError("changed since", 409)
        return self.add(manifest)

    async def apply(self, manifest: Manifest, subresource: str = "") -> Manifest:
        self._write("patch", manifest, subresource)
        live = self.objects.get(_address(manifest))
        wanted = manifest["metadata"].get("resourceVersion")
        if live is not None and wanted and wanted != live["metadata"]["resourceVersion"]:
            raise ConflictError("changed since", 409)
        if subresource == "status":
            made = {**copied(live or {}), "status": manifest["status"]}
        else:
            made = applied(live, self.applied.get(_address(manifest), {}), manifest)
            self.applied[_address(manifest)] = copied(manifest)
        return copied(live) if made == live else self.add(made)

    async def merge(self, kind: Kind, namespace: str, name: str, changes: Manifest) -> Manifest:
        self.writes.append(("merge", kind.kind, name))
        self._fail("merge", kind)
        live = self.objects.get((kind.kind, namespace, name))
        if live is None:
            raise KubeError(f"patch {kind.plural} {name}: not found", 404)
        return self.add(merged(live, changes))

    async def proxied(self, kind: Kind, namespace: str, name: str, path: str) -> Manifest:
        if (name, path) not in self.served:
            raise KubeError(f"get {kind.plural}/proxy {name}: no answer", 503)
        return copied(self.served[name, path])

    async def close(self) -> None:
        self.closed = True

    def _fail(self, verb: str, kind: Kind) -> None:
        if f"{verb} {kind.kind}" in self.failures:
            raise self.failures[f"{verb} {kind.kind}"]

    async def delete(
        self, kind: Kind, namespace: str, name: str, uid: str, grace_seconds: int | None = None
    ) -> None:
        self.writes.append(("delete", kind.kind, name))
        live = self.objects.get((kind.kind, namespace, name))
        if live is not None and live["metadata"]["uid"] == uid:
            del self.objects[kind.kind, namespace, name]
            self.applied.pop((kind.kind, namespace, name), None)

    def _write(self, verb: str, manifest: Manifest, subresource: str = "") -> None:
        kind = KINDS[manifest["kind"]].kind
        self.writes.append(
            (verb, f"{kind}/{subresource}" if subresource else kind, manifest["metadata"]["name"])
        )
        if kind in self.failures:
            raise self.failures[kind]

    def _stamped(self, manifest: Manifest) -> Manifest:
        metadata = manifest["metadata"]
        metadata.setdefault("uid", str(uuid.uuid4()))
        metadata.setdefault("creationTimestamp", "2026-01-01T00:00:00Z")
        metadata["resourceVersion"] = str(next(self._versions))
        return manifest


def _address(manifest: Manifest) -> tuple[str, str, str]:
    metadata = manifest["metadata"]
    return manifest["kind"], metadata["namespace"], metadata["name"]


def _labelled(item: Manifest, selector: str) -> bool:
    key, equals, value = selector.partition("=")
    return not equals or item["metadata"].get("labels", {}).get(key) == value


def _fits(item: Manifest, selector: str) -> bool:
    return all(
        item.get(path.split(".")[0], {}).get(path.split(".")[1]) == value
        for path, _, value in (part.partition("=") for part in selector.split(",") if part)
    )
