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
from specdec.controller.store import Key, Manifest, Store, newer, server_of

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
        before, present = dict(self.store.known(kind)), set[str]()
        unseen: list[Manifest] = []
        for namespace in self.namespaces or ("",):
            async for _, page in self.kube.pages(kind, namespace, kind.label):
                present |= {item["metadata"]["uid"] for item in page}
                unseen += [item for item in page if self._unseen(kind, item)]
        for (namespace, name), ghost in before.items():
            if ghost.uid not in present:
                metadata = {"namespace": namespace, "name": name, "uid": ghost.uid}
                self.store.drop({"kind": kind.kind, "metadata": metadata})
                self._wake(ghost.server)
        if not unseen:
            return
        await asyncio.sleep(GRACE_SECONDS)
        missed = [item for item in unseen if self._unseen(kind, item) and self.store.put(item)]
        for item in missed:
            sentence = f"the watch on {kind.plural} missed {item['metadata']['name']}"
            log.error("%s", sentence)
            self.complaints.append(sentence)
            self._wake(server_of(item))

    def _unseen(self, kind: Kind, item: Manifest) -> bool:
        metadata = item["metadata"]
        known = self.store.known(kind).get((metadata["namespace"], metadata["name"]))
        return known is None or newer(metadata["resourceVersion"], known.version)

    def _wake(self, server: Key | None) -> None:
        if server is not None:
            self.wake(server)
