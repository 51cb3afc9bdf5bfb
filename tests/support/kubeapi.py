"""The kind cluster's API server for tests that ask it many times a second: HTTP, through kubectl's proxy."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import aiohttp
from tests.support.kubectl import command

from specdec.controller.kinds import Kind

START_SECONDS = 20
APPLY = {"Content-Type": "application/apply-patch+yaml"}
STRATEGIC = {"Content-Type": "application/strategic-merge-patch+json"}
Manifest = dict[str, Any]


@dataclass(frozen=True)
class KubeApi:
    """An API server that asks for no credentials."""

    url: str
    session: aiohttp.ClientSession

    async def get(self, kind: Kind, namespace: str, name: str) -> Manifest:
        """Fetch one object."""
        return await self._ask("GET", kind.path(namespace, name))

    async def items(self, kind: Kind, namespace: str, label: str) -> list[Manifest]:
        """Fetch a namespace's objects that have a label of this value: "name=value"."""
        found: list[Manifest] = (
            await self._ask("GET", kind.path(namespace), params={"labelSelector": label})
        )["items"]
        return found

    async def apply(self, kind: Kind, manifest: Manifest) -> None:
        """Apply an object as its user."""
        path = kind.path(manifest["metadata"]["namespace"], manifest["metadata"]["name"])
        await self._ask("PATCH", path, json=manifest, headers=APPLY, params={"fieldManager": "user"})

    async def set_status(self, kind: Kind, namespace: str, name: str, status: Manifest) -> None:
        """Write an object's status, as a controller of Kubernetes does."""
        path = kind.path(namespace, name, "status")
        await self._ask("PATCH", path, json={"status": status}, headers=STRATEGIC)

    async def _ask(self, method: str, path: str, **more: Any) -> Manifest:
        async with self.session.request(method, self.url + path, **more) as answer:
            if not answer.ok:
                raise RuntimeError(f"{method} {path}: {answer.status} {(await answer.text())[:300]}")
            found: Manifest = await answer.json()
            return found


@contextlib.asynccontextmanager
async def kube_api() -> AsyncIterator[KubeApi]:
    """Open the proxy, and close it afterwards."""
    proxy = await asyncio.create_subprocess_exec(
        *command("proxy", "--port=0"), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
    )
    assert proxy.stdout is not None
    try:
        async with asyncio.timeout(START_SECONDS):
            line = (await proxy.stdout.readline()).decode()  # Starting to serve on 127.0.0.1:41234
        async with aiohttp.ClientSession() as session:
            yield KubeApi(f"http://{line.split()[-1]}", session)
    finally:
        proxy.kill()
        await proxy.wait()
