"""An API server that knows nothing but roles: it refuses what they don't allow, in the real one's words."""

from __future__ import annotations

import json
from collections.abc import Iterable
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


class _Stream:
    def close(self) -> None:
        """A watch is left."""


class _Response:
    response = _Stream()

    def __init__(self, status: int, body: dict[str, Any]) -> None:
        self.status, self.body = status, body

    async def read(self) -> bytes:
        return json.dumps(self.body).encode()


class GuardedApi:
    """What `specdec.controller.kube.Kube` asks of the client library."""

    def __init__(self, given: list[Grant]) -> None:
        self.given = given
        self.asked: list[Request] = []

    async def param_serialize(self, method: str, path: str, **parts: Any) -> tuple[Request, None, None]:
        return request(method, path, dict(parts["query_params"])), None, None

    async def call_api(self, asked: Request, _url: None, _headers: None, body: Any) -> _Response:
        body = json.loads(body) if isinstance(body, str) else body
        self.asked.append(asked)
        if not allows(self.given, asked):
            return _Response(403, {"message": f"{asked.resource} is forbidden: User cannot {asked.verb}"})
        found = body if isinstance(body, dict) and "metadata" in body else {"metadata": {"name": asked.name}}
        return _Response(200, {"items": []} if asked.verb == "list" else found)


def request(method: str, path: str, query: dict[str, str]) -> Request:
    """Read a request from its line."""
    root = max((root for root in _GROUPS if path.startswith(f"{root}/")), key=len)
    parts = path.removeprefix(f"{root}/").split("/")
    namespace = parts[1] if parts[0] == "namespaces" else ""
    resource, *rest = parts[2:] if namespace else parts
    name = rest[0] if rest else ""
    verb = _VERBS.get(method) or ("get" if name else "watch" if "watch" in query else "list")
    return Request(verb, _GROUPS[root], "/".join([resource, *rest[1:]]), namespace, name)
