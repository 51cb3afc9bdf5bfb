"""Notices a watch that went deaf: it compares the store with a fresh list every few minutes.

A watch may stay open and say nothing, and kopf reports no deletion that fell between two watches. What a
list shows differently is put right; if a list has what no watch delivered in time, the process is unfit
and the kubelet restarts it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass

from specdec.controller.kinds import CHILDREN, SPEC_DECODE_SERVER, Kind
from specdec.controller.kube import Kube, KubeError
from specdec.controller.store import Key, Manifest, Store, server_of

log = logging.getLogger(__name__)

GRACE_SECONDS = 20.0
"""A watch may lag behind a list by this much."""


@dataclass
class Watchdog:
    """Compares, mends, and says whether the watches work."""

    kube: Kube
    store: Store
    wake: Callable[[Key], None]
    namespaces: tuple[str, ...]
    unwatchable: frozenset[Kind]
    seconds: float
    complaints: list[str]
    """Sentences that make /healthz fail."""

    async def run(self) -> None:
        """Compare for ever."""
        while True:
            await asyncio.sleep(self.seconds)
            for kind in (SPEC_DECODE_SERVER, *CHILDREN):
                if kind in self.unwatchable:
                    continue
                try:
                    await self.compare(kind)
                except KubeError as error:
                    log.warning("%s", error)

    async def compare(self, kind: Kind) -> None:
        """Compare one kind with a fresh list."""
        known = {_identity(item) for item in self.store.all(kind)}
        listed = [
            item
            for namespace in self.namespaces or ("",)
            for item in await self.kube.list(kind, namespace, kind.label)
        ]
        present = {_identity(item) for item in listed}
        for ghost in [item for item in self.store.all(kind) if _identity(item) in known - present]:
            self.store.drop(ghost)
            self._wake(ghost)
        if not any(self._unseen(kind, item) for item in listed):
            return
        await asyncio.sleep(GRACE_SECONDS)
        missed = [item for item in listed if self._unseen(kind, item) and self.store.put(item)]
        for item in missed:
            sentence = f"the watch on {kind.plural} missed {item['metadata']['name']}"
            log.error("%s", sentence)
            self.complaints.append(sentence)
            self._wake(item)

    def _unseen(self, kind: Kind, item: Manifest) -> bool:
        metadata = item["metadata"]
        known = self.store.get(kind, metadata["namespace"], metadata["name"])
        if known is None:
            return True
        return int(known["metadata"]["resourceVersion"]) < int(metadata["resourceVersion"])

    def _wake(self, item: Manifest) -> None:
        server = server_of(item)
        if server is not None:
            self.wake(server)


def _identity(item: Manifest) -> tuple[str, str, str]:
    metadata = item["metadata"]
    return metadata["namespace"], metadata["name"], metadata["uid"]
