"""One server's world at one moment, by lists instead of watches: for whoever looks once, as the command line does."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from specdec.api.v1alpha1 import SpecDecodeServer
from specdec.controller.claims import Claims
from specdec.controller.clock import Clock
from specdec.controller.kinds import CHILDREN, POD, SPEC_DECODE_SERVER
from specdec.controller.kube import Kube, KubeError
from specdec.controller.observe import Heard, named_claims, world
from specdec.controller.store import Key, Store
from specdec.engine.protocol import AGENT_PORT, Status
from specdec.resources.labels import is_engine
from specdec.rollout.world import Settings, World


async def snapshot(kube: Kube, key: Key) -> Store:
    """List everything that belongs to a server; the server itself may be missing."""
    store = Store()
    server = await kube.get(SPEC_DECODE_SERVER, *key)
    if server is not None:
        store.put(server)
    for kind in CHILDREN:
        for item in await kube.list(kind, key[0], f"{kind.label}={key[1]}"):
            store.put(item)
    return store


async def heard(kube: Kube, store: Store, key: Key, clock: Clock) -> dict[str, Heard]:
    """Ask the agents of a server's pods through the API server; those that don't answer are left out."""
    pods = [pod for pod in store.children(POD, key) if is_engine(pod)]
    said = await asyncio.gather(*(_asked(kube, pod) for pod in pods))
    return {
        pod["metadata"]["uid"]: Heard(status, clock.now())
        for pod, status in zip(pods, said, strict=True)
        if status is not None
    }


async def _asked(kube: Kube, pod: dict[str, Any]) -> Status | None:
    metadata = pod["metadata"]
    try:
        answer = await kube.proxied(POD, metadata["namespace"], f"{metadata['name']}:{AGENT_PORT}", "status")
        return Status.model_validate(answer)
    except (KubeError, ValidationError, ValueError):
        return None


async def observed_world(
    kube: Kube, server: SpecDecodeServer, store: Store, said: Mapping[str, Heard], settings: Settings
) -> World:
    """Put together what the planner sees, for a server as it is or as it might be."""
    clock = Clock()
    views = await Claims(kube, clock).views(server.namespace, named_claims(server))
    return world(server, store, settings=settings, heard=said, claim_views=views)
