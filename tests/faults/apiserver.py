"""An API server at the level of requests: what `specdec.controller.kube.Kube` sends is answered here.

It knows versions, conflicts, preconditions, generations and server-side apply with one manager (fields that it
no longer applies go away). It keeps plain data, so that a world can be copied.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.support.guardedapi import Request
from tests.support.serversideapply import applied, copied

from specdec.controller.kinds import KINDS, Kind
from specdec.rollout.clock import text

Manifest = dict[str, Any]
Address = tuple[str, str, str]
Answer = tuple[int, Manifest]
Listener = Callable[[str, Manifest], None]

BY_RESOURCE: dict[str, Kind] = {kind.plural: kind for kind in KINDS.values()}


@dataclass
class ApiServer:
    """Everything that is stored, and who watches."""

    now: float
    objects: dict[Address, Manifest] = field(default_factory=dict)
    applied: dict[Address, Manifest] = field(default_factory=dict)
    """What the operator applied last, by object."""
    version: int = 0
    listeners: list[Listener] = field(default_factory=list)
    log: list[tuple[int, str, Manifest]] = field(default_factory=list)
    """Events by version, for watches that begin at an earlier one."""
    forgotten: int = 0
    """A watch that begins at an earlier version is Gone."""

    def forget(self) -> None:
        """Forget what has happened, as an API server does after some minutes; open watches have it still."""
        self.forgotten = self.version

    def get(self, kind: Kind, namespace: str, name: str) -> Manifest | None:
        """Look at an object; it is not to be changed."""
        return self.objects.get((kind.kind, namespace, name))

    def of(self, kind: Kind) -> list[Manifest]:
        """All objects of a kind."""
        return [item for address, item in self.objects.items() if address[0] == kind.kind]

    def answer(self, asked: Request, query: dict[str, str], body: Any) -> Answer:
        """Answer one request."""
        resource, _, subresource = asked.resource.partition("/")
        kind = BY_RESOURCE[resource]
        address = (kind.kind, asked.namespace, asked.name)
        match asked.verb:
            case "list":
                found = self._listed(kind, asked.namespace, query)
                return 200, {"metadata": {"resourceVersion": str(self.version)}, "items": found}
            case "watch":
                return 200, {}
            case "get":
                live = self.objects.get(address)
                return (200, copied(live)) if live else _refusal(404, f"{asked.name} not found")
            case _:
                return self._written(asked.verb, kind, address, body, subresource)

    def _written(self, verb: str, kind: Kind, address: Address, body: Any, subresource: str) -> Answer:
        match verb:
            case "create":
                return self._create(kind, address[1], body)
            case "update":
                return self._replace(address, body)
            case "patch":
                return self._apply(address, body, subresource)
            case "delete":
                return self._delete(address, body)
        raise AssertionError(verb)

    def put(self, manifest: Manifest) -> Manifest:
        """Store an object as a user, the kubelet or a controller would, and tell who watches."""
        metadata = manifest["metadata"]
        address = (manifest["kind"], metadata["namespace"], metadata["name"])
        before = self.objects.get(address)
        stored = copied(manifest)
        self.version += 1
        metadata = stored["metadata"]
        metadata.setdefault("uid", f"uid-{self.version}")
        metadata.setdefault("creationTimestamp", text(self.now))
        metadata["resourceVersion"] = str(self.version)
        if "spec" in stored:
            changed = before is not None and before.get("spec") != stored["spec"]
            metadata["generation"] = metadata.get("generation", 1) + changed
        self.objects[address] = stored
        self._tell("MODIFIED" if before else "ADDED", stored)
        return copied(stored)

    def remove(self, address: Address) -> None:
        """Take an object away, as at the end of a pod."""
        gone = self.objects.pop(address)
        self.applied.pop(address, None)
        self.version += 1
        gone["metadata"]["resourceVersion"] = str(self.version)
        self._tell("DELETED", gone)

    def _tell(self, event: str, manifest: Manifest) -> None:
        self.log.append((self.version, event, manifest))
        for listener in self.listeners:
            listener(event, manifest)

    def _listed(self, kind: Kind, namespace: str, query: dict[str, str]) -> list[Manifest]:
        key, equals, value = query.get("labelSelector", "").partition("=")
        found = []
        for item in self.of(kind):
            labels = item["metadata"].get("labels", {})
            fits = labels.get(key) == value if equals else not key or key in labels
            if fits and namespace in ("", item["metadata"]["namespace"]):
                found.append(copied(item))
        return found

    def _create(self, kind: Kind, namespace: str, body: Manifest) -> Answer:
        if (kind.kind, namespace, body["metadata"]["name"]) in self.objects:
            return _refusal(409, "already exists")
        return 201, self.put({**body, "apiVersion": kind.api_version, "kind": kind.kind})

    def _replace(self, address: Address, body: Manifest) -> Answer:
        live = self.objects.get(address)
        if live is None:
            return _refusal(404, "not found")
        if body["metadata"].get("resourceVersion") != live["metadata"]["resourceVersion"]:
            return _refusal(409, "the object has been modified")
        return 200, self.put(body)

    def _apply(self, address: Address, body: Manifest, subresource: str) -> Answer:
        live = self.objects.get(address)
        if live is None and (subresource or "uid" in body["metadata"]):
            return _refusal(404, "not found")
        for key in ("resourceVersion", "uid"):
            wanted = body["metadata"].get(key)
            if live is not None and wanted and wanted != live["metadata"][key]:
                return _refusal(409, f"{key} differs")
        if subresource == "status":
            assert live is not None
            merged = {**live, "status": copied(body["status"])}
        else:
            merged = applied(live, self.applied.get(address, {}), body)
            self.applied[address] = copied(body)
        return 200, copied(live) if merged == live else self.put(merged)

    def _delete(self, address: Address, body: Manifest) -> Answer:
        live = self.objects.get(address)
        if live is None:
            return _refusal(404, "not found")
        if body["preconditions"]["uid"] != live["metadata"]["uid"]:
            return _refusal(409, "the UID in the precondition does not match")
        if address[0] != "Pod" or body.get("gracePeriodSeconds") == 0:
            self.remove(address)
        elif "deletionTimestamp" not in live["metadata"]:  # the kubelet ends it
            self.put({**live, "metadata": {**live["metadata"], "deletionTimestamp": text(self.now)}})
        return 200, {}


def _refusal(status: int, message: str) -> Answer:
    return status, {"kind": "Status", "message": message}
