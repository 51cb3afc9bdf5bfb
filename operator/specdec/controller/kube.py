"""The Kubernetes client: plain objects in and out, server-side apply, and errors that are sentences."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass
from typing import Any

import aiohttp
from kubernetes.aio import client, config
from pydantic_core import from_json, to_json

from specdec.controller import metrics
from specdec.controller.connection import Connection
from specdec.controller.kinds import KINDS, Kind
from specdec.resources.labels import OPERATOR

REQUEST_SECONDS = 10.0
"""Deadline of one request: a pass never hangs on a half-open connection."""
CONNECT_SECONDS = 1.5
"""An attempt to connect that takes longer is given up: the next one is heard as soon as somebody listens again.

A packet that asks for a connection is sent again after 1 s, and then not before 3 s (RFC 6298, 2.1 and 5.5): more
time would only be waited. So whoever comes back is asked at most 1 s, or the pause before the next attempt, later.
"""
NOTHING = "metadata.name=-"
"""Field selector that no object fits: for whoever asks whether it may ask."""
PAGE = 500
"""Objects of one answer: a list of thousands is never in memory as a whole."""

Manifest = dict[str, Any]


class KubeError(Exception):
    """The API server refused or did not answer; the text is a sentence for people."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


class ForbiddenError(KubeError):
    """The operator's role lacks a verb."""


class ConflictError(KubeError):
    """The object changed since it was read: read it again."""


class GoneError(KubeError):
    """The API server has forgotten the version that was asked for: list again."""


class Kube:
    """What the controller asks of the API server."""

    def __init__(self, connection: Connection, caller: Caller | None = None) -> None:
        self._connection = connection
        self._caller = caller or THE_OPERATOR

    @classmethod
    async def connect(cls) -> Kube:
        """Connect with the pod's service account, or with the kubeconfig of a terminal."""
        configuration = client.Configuration()
        # Proxies of the environment are for the world outside; looking them up takes two threads a request.
        configuration.client_session_kwargs = {"trust_env": False}
        try:
            config.load_incluster_config(client_configuration=configuration)
        except config.ConfigException:
            await config.load_kube_config(client_configuration=configuration)
        return cls(Connection(client.ApiClient(configuration), CONNECT_SECONDS))

    async def close(self) -> None:
        """Close the connections."""
        await self._connection.close()

    async def get(self, kind: Kind, namespace: str, name: str) -> Manifest | None:
        """Read one object; None if there is none."""
        try:
            return await self._call("get", kind, namespace, name)
        except KubeError as error:
            if error.status == 404:
                return None
            raise

    async def pages(
        self, kind: Kind, namespace: str = "", label: str = "", fields: str = ""
    ) -> AsyncIterator[tuple[str, list[Manifest]]]:
        """List the objects of a namespace, or of all, in pages: the version of the whole list, and one page.

        Raises
        ------
        GoneError
            The list changed so much meanwhile that its rest is not to be had.
        """
        query, head = {"limit": str(PAGE)}, {"apiVersion": kind.api_version, "kind": kind.kind}
        query |= {"labelSelector": label} if label else {}
        query |= {"fieldSelector": fields} if fields else {}
        while True:
            found = await self._call("list", kind, namespace, query=query)
            yield found["metadata"]["resourceVersion"], [{**head, **item} for item in found["items"]]
            query["continue"] = found["metadata"].get("continue", "")
            if not query["continue"]:
                return

    async def list(
        self, kind: Kind, namespace: str = "", label: str = "", fields: str = ""
    ) -> list[Manifest]:
        """Join the pages of a list that is short."""
        return [item async for _, page in self.pages(kind, namespace, label, fields) for item in page]

    async def watch(
        self, kind: Kind, namespace: str, label: str, *, version: str, seconds: int
    ) -> AsyncGenerator[Manifest, None]:
        """Events after a version, with bookmarks, until the API server ends the watch: it should after `seconds`.

        Raises
        ------
        GoneError
            The version is too old.
        """
        query = {"watch": "true", "resourceVersion": version, "timeoutSeconds": str(seconds)}
        query |= {"allowWatchBookmarks": "true"} | ({"labelSelector": label} if label else {})
        what = Ask("watch", kind, namespace, caller=self._caller)
        async with what.carried():
            async with asyncio.timeout(REQUEST_SECONDS):
                response = await self._begin("watch", what, query)
                if response.status >= 400:
                    raise what.error(response.status, await response.read())
            try:
                async for line in _lines(response.content.iter_any()):
                    yield what.event(line)
            finally:
                response.close()

    async def try_watch(self, kind: Kind, namespace: str = "", label: str = "") -> None:
        """Begin a watch and leave it at once.

        Raises
        ------
        KubeError
            It may not be watched.
        """
        query = {"watch": "true", "fieldSelector": NOTHING, "timeoutSeconds": "1"}
        await self._call("watch", kind, namespace, query=query | ({"labelSelector": label} if label else {}))

    async def create(
        self, kind: Kind, namespace: str, manifest: Manifest, *, dry_run: bool = False
    ) -> Manifest:
        """Make an object; a dry run is admitted or refused, and not stored.

        It is sent as YAML, which the API server brings into the form that an apply gives JSON (keys in order, no spaces): the
        data of a ControllerRevision may never change, and are compared byte by byte.
        """
        return await self._call("create", kind, namespace, query=_dry(dry_run), body=manifest)

    async def replace(
        self, kind: Kind, namespace: str, manifest: Manifest, *, dry_run: bool = False
    ) -> Manifest:
        """Replace an object that is as it was read: its resourceVersion is checked."""
        name = manifest["metadata"]["name"]
        return await self._call("update", kind, namespace, name, query=_dry(dry_run), body=manifest)

    async def merge(self, kind: Kind, namespace: str, name: str, changes: Manifest) -> Manifest:
        """Change some fields of an object, as its user; null removes one."""
        query = {"fieldManager": self._caller.agent}
        return await self._call("merge", kind, namespace, name, query=query, body=changes)

    async def proxied(self, kind: Kind, namespace: str, name: str, path: str) -> Manifest:
        """Ask what an object serves over HTTP, through the API server."""
        return await self._call("get", kind, namespace, name, subresource=f"proxy/{path}")

    async def apply(self, manifest: Manifest, subresource: str = "") -> Manifest:
        """Apply our fields server-side and take them over from whoever else set them."""
        metadata = manifest["metadata"]
        return await self._call(
            "patch",
            KINDS[manifest["kind"]],
            metadata["namespace"],
            metadata["name"],
            subresource=subresource,
            query={"fieldManager": OPERATOR, "force": "true"},
            body=manifest,
        )

    async def delete(
        self, kind: Kind, namespace: str, name: str, uid: str, grace_seconds: int | None = None
    ) -> None:
        """Delete this very object, not another one that took its name; gone already is fine."""
        body: Manifest = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": uid}}
        if grace_seconds is not None:
            body["gracePeriodSeconds"] = grace_seconds
        try:
            await self._call("delete", kind, namespace, name, body=body)
        except KubeError as error:
            if error.status not in (404, 409):
                raise

    async def _call(
        self,
        verb: str,
        kind: Kind,
        namespace: str,
        name: str = "",
        *,
        subresource: str = "",
        query: dict[str, str] | None = None,
        body: Manifest | None = None,
    ) -> Manifest:
        what = Ask(_WORDS.get(verb, verb), kind, namespace, name, subresource, self._caller)
        status, text = await self._send(verb, what, query or {}, body)
        if status >= 400:
            raise what.error(status, text)
        try:
            parsed: Manifest = from_json(text)
        except ValueError:
            raise KubeError(f"{what.words} was answered with {status} and what is no JSON") from None
        return parsed

    async def _send(
        self, verb: str, what: Ask, query: dict[str, str], body: Manifest | None
    ) -> tuple[int, bytes]:
        """Send a request; returns the answer's status code and text."""
        async with what.carried(), asyncio.timeout(REQUEST_SECONDS):
            response = await self._begin(verb, what, query, body)
            if what.verb == "watch" and response.status < 400:
                response.close()  # it began, which was the question; it would not end by itself
                return response.status, b"{}"
            text = await response.read()
        if _METHODS[verb] != "GET":
            metrics.API_WRITES.labels(verb=what.verb, kind=what.kind.kind, code=str(response.status)).inc()
        return response.status, text

    async def _begin(
        self, verb: str, what: Ask, query: dict[str, str], body: Manifest | None = None
    ) -> aiohttp.ClientResponse:
        """Send a request; returns the response, whose text is still to be read."""
        headers = {
            "Accept": "application/json",
            "User-Agent": self._caller.agent,
            "Content-Type": _BODIES.get(verb, "application/json"),
        }
        path = what.kind.path(what.namespace, what.name, what.subresource)
        # Letters beyond ASCII escaped: bodies are read as YAML, too, which takes some of them only so.
        sent = None if body is None else to_json(body, ensure_ascii=True)
        return await self._connection.send(_METHODS[verb], path, query, headers, sent)


_METHODS = {
    "get": "GET", "list": "GET", "watch": "GET", "create": "POST", "update": "PUT", "patch": "PATCH",
    "merge": "PATCH", "delete": "DELETE",
}  # fmt: skip
_BODIES = {
    "create": "application/yaml",
    "patch": "application/apply-patch+yaml",
    "merge": "application/merge-patch+json",
}
_WORDS = {"merge": "patch"}


async def _lines(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Cut a stream into lines, however long: objects are larger than the client's own limit of a line."""
    rest = b""
    async for chunk in chunks:
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            yield line


def _dry(run: bool) -> dict[str, str]:
    return {"dryRun": "All"} if run else {}


@dataclass(frozen=True)
class Caller:
    """Who asks: the operator, or a person at a terminal."""

    agent: str
    """User agent, and manager of the fields that it sets."""
    named: str
    """In a sentence."""
    role: str
    """What to change where a right is missing."""


THE_OPERATOR = Caller(OPERATOR, OPERATOR, "grant it in the operator's role")


@dataclass(frozen=True)
class Ask:
    """One request in words."""

    verb: str
    kind: Kind
    namespace: str
    name: str = ""
    subresource: str = ""
    caller: Caller = THE_OPERATOR

    @property
    def resource(self) -> str:
        """Resource as RBAC names it."""
        return f"{self.kind.plural}/{self.subresource}" if self.subresource else self.kind.plural

    @property
    def where(self) -> str:
        """Scope in words."""
        return f"in namespace {self.namespace}" if self.namespace else "in the cluster"

    @property
    def words(self) -> str:
        """What was asked."""
        return " ".join(part for part in (self.verb, self.resource, self.name, self.where) if part)

    @contextlib.asynccontextmanager
    async def carried(self) -> AsyncIterator[None]:
        """Make a sentence of whatever breaks on the way."""
        try:
            yield
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise KubeError(f"{self.words} failed: {type(error).__name__} {error}".rstrip()) from error

    def event(self, line: bytes) -> Manifest:
        """Read one event of a watch."""
        try:
            event: Manifest = from_json(line)
            kind, found = event["type"], event["object"]
        except (ValueError, KeyError, TypeError):
            raise KubeError(f"{self.words} was answered with what is no event") from None
        if kind == "ERROR":
            raise self.error(int(found.get("code", 0)), to_json(found))
        return event

    def forbidden(self) -> str:
        """Sentence that names what the role lacks."""
        resource = f"{self.resource}.{self.kind.group}" if self.kind.group else self.resource
        return f"{self.caller.named} may not {self.verb} {resource} {self.where}: {self.caller.role}"

    def error(self, status: int, text: bytes) -> KubeError:
        """Error of an answer."""
        try:
            said = str(from_json(text).get("message", ""))
        except ValueError:
            said = text.decode(errors="replace")
        if status == 403 and "is forbidden: User" in said:
            return ForbiddenError(self.forbidden(), status)
        if status == 409:
            return ConflictError(f"{self.words}: {said}", status)
        if status == 410:
            return GoneError(f"{self.words}: {said}", status)
        return KubeError(f"{self.words} was refused with {status}: {said[:500]}", status)
