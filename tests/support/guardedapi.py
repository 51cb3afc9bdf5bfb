"""An API server that knows nothing but roles: it refuses what they don't allow, in the real one's words."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from specdec.controller.kinds import KINDS

Rule = dict[str, Any]
_GROUPS = {kind.root: kind.group for kind in KINDS.values()}
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


@dataclass(frozen=True)
class Grant:
    """Rules, and the namespace that they hold in ("" is everywhere)."""

    namespace: str
    rules: tuple[Rule, ...]


@dataclass(frozen=True)
class Request:
    """One request as the authorizer sees it."""

    verb: str
    group: str
    resource: str
    namespace: str
    name: str


def grants(manifests: Iterable[dict[str, Any]], user: str) -> list[Grant]:
    """What the bindings among the manifests give to a service account."""
    kept = list(manifests)
    roles = {
        (item["kind"], item["metadata"].get("namespace", ""), item["metadata"]["name"]): item for item in kept
    }
    found = []
    for binding in kept:
        if not binding["kind"].endswith("Binding") or "roleRef" not in binding:
            continue
        if user not in {subject["name"] for subject in binding["subjects"]}:
            continue
        kind, where = binding["roleRef"]["kind"], binding["metadata"].get("namespace", "")
        role = roles[kind, where if kind == "Role" else "", binding["roleRef"]["name"]]
        found.append(Grant(where, tuple(role["rules"])))
    return found


def allows(given: Iterable[Grant], request: Request) -> bool:
    """Decide as RBAC does."""
    return any(
        request.verb in rule["verbs"]
        and request.group in rule["apiGroups"]
        and request.resource in rule["resources"]
        and ("resourceNames" not in rule or request.name in rule["resourceNames"])
        for grant in given
        if grant.namespace in ("", request.namespace)
        for rule in grant.rules
    )


class _Response:
    def __init__(self, status: int, body: dict[str, Any]) -> None:
        self.status, self.body = status, body

    async def read(self) -> bytes:
        return json.dumps(self.body).encode()

    def close(self) -> None:
        """A watch is left."""


class GuardedApi:
    """What `specdec.controller.kube.Kube` sends its requests by."""

    def __init__(self, given: list[Grant]) -> None:
        self.given = given
        self.asked: list[Request] = []

    async def send(
        self, method: str, path: str, query: Mapping[str, str], _headers: Any, sent: bytes | None
    ) -> _Response:
        asked, body = request(method, path, query), json.loads(sent or b"null")
        self.asked.append(asked)
        if not allows(self.given, asked):
            return _Response(403, {"message": f"{asked.resource} is forbidden: User cannot {asked.verb}"})
        found = body if isinstance(body, dict) and "metadata" in body else {"metadata": {"name": asked.name}}
        return _Response(
            200, {"metadata": {"resourceVersion": "1"}, "items": []} if asked.verb == "list" else found
        )


def request(method: str, path: str, query: Mapping[str, str]) -> Request:
    """Read a request from its line."""
    root = max((root for root in _GROUPS if path.startswith(f"{root}/")), key=len)
    parts = path.removeprefix(f"{root}/").split("/")
    namespace = parts[1] if parts[0] == "namespaces" else ""
    resource, *rest = parts[2:] if namespace else parts
    name = rest[0] if rest else ""
    verb = _VERBS.get(method) or ("get" if name else "watch" if "watch" in query else "list")
    return Request(verb, _GROUPS[root], "/".join([resource, *rest[1:]]), namespace, name)
