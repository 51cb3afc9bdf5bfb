"""One server as the command line shows it: the object, its revisions and its last events."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from specdec.api.v1alpha1 import SpecDecodeServer
from specdec.cli.cluster import FailedError
from specdec.controller.kinds import CONTROLLER_REVISION, EVENT, SPEC_DECODE_SERVER
from specdec.resources import revision_record
from specdec.rollout.revisions import version
from specdec.rollout.world import RevisionRecord

if TYPE_CHECKING:
    from specdec.cli.cluster import Cluster

Manifest = dict[str, Any]


@dataclass(frozen=True)
class Happened:
    """One Event."""

    at: str
    """RFC 3339."""
    type: str
    reason: str
    message: str


@dataclass(frozen=True)
class Picture:
    """What one look at a server shows."""

    manifest: Manifest
    server: SpecDecodeServer
    records: tuple[RevisionRecord, ...]
    """By number."""
    events: tuple[Happened, ...]
    """Oldest first."""

    @property
    def named(self) -> str:
        """The server in a sentence."""
        return f"{self.server.name} in {self.server.namespace}"

    def record(self, name: str) -> RevisionRecord | None:
        """Look a revision up."""
        return next((record for record in self.records if record.name == name), None)

    @property
    def desired(self) -> RevisionRecord | None:
        """The revision that the spec asks for: whatever is asked for gets the highest number."""
        return self.records[-1] if self.records else None


async def looked(cluster: Cluster, name: str) -> Picture:
    """Look at a server; fails in a sentence if there is none."""
    return await pictured(cluster, await server(cluster, name))


async def server(cluster: Cluster, name: str) -> Manifest:
    """Fetch a server."""
    found = await cluster.kube.get(SPEC_DECODE_SERVER, cluster.namespace, name)
    if found is None:
        raise FailedError(f"there is no SpecDecodeServer {name} in namespace {cluster.namespace}")
    return found


async def pictured(cluster: Cluster, manifest: Manifest) -> Picture:
    """Add revisions and events to a server."""
    typed = SpecDecodeServer.model_validate(manifest)
    return Picture(manifest, typed, await records(cluster, typed), await events(cluster, typed))


async def records(cluster: Cluster, of: SpecDecodeServer) -> tuple[RevisionRecord, ...]:
    """List a server's revisions by number."""
    kind = CONTROLLER_REVISION
    listed = await cluster.kube.list(kind, of.namespace, f"{kind.label}={of.name}")
    return tuple(sorted((revision_record(item) for item in listed), key=lambda record: record.number))


async def events(cluster: Cluster, of: SpecDecodeServer) -> tuple[Happened, ...]:
    """List a server's events, oldest first."""
    fields = f"involvedObject.kind={of.kind},involvedObject.name={of.name}"
    listed = await cluster.kube.list(EVENT, of.namespace, fields=fields)
    found = [_happened(item) for item in listed]
    return tuple(sorted(found, key=lambda event: event.at))


def _happened(item: Manifest) -> Happened:
    at = item.get("eventTime") or item["metadata"].get("creationTimestamp") or ""
    return Happened(at, item.get("type", ""), item.get("reason", ""), item.get("message", ""))


def chosen(picture: Picture, text: str) -> RevisionRecord:
    """Find the revision that a person means: a number, a name or the end of one, or a drafter version."""
    fits = [
        record
        for record in picture.records
        if text in (record.name, str(record.number)) or record.name.endswith(f"-{text}")
    ] or [record for record in picture.records if version(record) == text]
    if len(fits) == 1:
        return fits[0]
    if not fits:
        raise FailedError(f"{picture.named} has no revision {text}; `kubectl specdec history` lists them")
    names = ", ".join(record.name for record in fits)
    raise FailedError(f"{text} may be any of {names}: give its number or name")
