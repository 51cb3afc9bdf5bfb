"""An operator as kopf's tutorial writes it: create, update and resume handlers with kopf's defaults."""

from __future__ import annotations

import os
from typing import Any

import aiohttp
import kopf

from bench.scaling.apiserver import TOKEN
from bench.scaling.objects import Template

URL = os.environ["BENCH_URL"]
TEMPLATE = Template()
HEADERS = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/apply-patch+yaml"}
_sessions: list[aiohttp.ClientSession] = []


def _session() -> aiohttp.ClientSession:
    if not _sessions:
        connector = aiohttp.TCPConnector(ssl=False, limit=32)
        _sessions.append(aiohttp.ClientSession(connector=connector, headers=HEADERS))
    return _sessions[0]


@kopf.on.login()  # type: ignore[arg-type]
def login(**context: Any) -> kopf.ConnectionInfo | None:
    """Connect as our operator does."""
    return kopf.login_with_kubeconfig(**context)


@kopf.on.resume("specdecodeservers")
@kopf.on.create("specdecodeservers")
@kopf.on.update("specdecodeservers", field="spec")
async def wished(name: str, uid: str, meta: Any, patch: kopf.Patch, **_: Any) -> None:
    """Make all objects and tell the status."""
    for path, body in TEMPLATE.objects(name, uid):
        async with _session().patch(URL + path, data=body) as answer:
            await answer.read()
    patch.status.update(TEMPLATE.status(meta["generation"]))
