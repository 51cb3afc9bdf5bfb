"""The watches on what belongs to servers: one light stream for each kind, straight into the store.

kopf watches the servers themselves. For children it would keep a task, a queue and an index entry each, and
there are half a dozen of them for every server.

A watch is asked to end after a minute and begins again at the version where it ended, so whatever a deaf
connection kept back comes then; one that the API server does not end is left. Where versions were forgotten
(410), everything is listed again, and what the list lacks was deleted meanwhile.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from specdec.controller.kinds import CHILDREN, Kind
from specdec.controller.kube import GoneError, Kube, KubeError
from specdec.controller.store import Key, Store, server_of

log = logging.getLogger(__name__)

WATCH_SECONDS = 55
"""The API server ends a watch after this long."""
DEAF_SECONDS = 10.0
"""One that is still open so much later hears nothing any more."""
RETRY_SECONDS = 0.5
"""Between two watches: an API server that comes back is seen soon, and one that is down is not flooded."""

Wake = Callable[[Key], None]


def take(kind: Kind, event_type: str | None, body: Any, store: Store, wake: Wake) -> None:
    """Take what a watch says of one object, and if it is news wake its server's loop, and that of the one it was taken from."""
    # Lists leave kind and version out of their items.
    manifest = {**body, "apiVersion": kind.api_version, "kind": kind.kind}
    before = store.server_now(manifest)
    if event_type == "DELETED":  # or its label is gone, which the watch selects by
        store.drop(manifest)
    elif not store.put(manifest):
        return  # known already: our own write, or an older version that came late
    for server in {before, server_of(manifest)}:
        if server is not None:
            wake(server)


@dataclass
class Watch:
    """The watch on one kind, in one namespace or ("") all."""

    kube: Kube
    store: Store
    wake: Wake
    kind: Kind
    namespace: str = ""
    known: asyncio.Event = field(default_factory=asyncio.Event)
    """Set once everything that is there is in the store."""
    _version: str = ""
    """Newest version that was heard of; "" before a list."""
    _failing: bool = False
    """Since the last event or list: an outage is told once."""

    async def run(self) -> None:
        """Watch for ever."""
        while True:
            try:
                if not self._version:
                    self._version = await self._list()
                    self.known.set()
                    self._failing = False
                async with asyncio.timeout(WATCH_SECONDS + DEAF_SECONDS):
                    await self._follow()
            except GoneError as error:
                log.info("%s", error)
                self._version = ""
            except TimeoutError:
                log.warning("the watch on %s was deaf: begun again where it ended", self.kind.plural)
            except KubeError as error:
                log.log(logging.DEBUG if self._failing else logging.WARNING, "%s", error)
                self._failing = True
            await asyncio.sleep(RETRY_SECONDS)

    async def _follow(self) -> None:
        where = (self.kind, self.namespace, self.kind.label)
        events = self.kube.watch(*where, version=self._version, seconds=WATCH_SECONDS)
        async with aclosing(events):
            async for event in events:
                if event["type"] != "BOOKMARK":
                    take(self.kind, event["type"], event["object"], self.store, self.wake)
                self._version = event["object"]["metadata"]["resourceVersion"]
                self._failing = False

    async def _list(self) -> str:
        version, listed = "", set[tuple[str, str]]()
        async for at, page in self.kube.pages(self.kind, self.namespace, self.kind.label):
            version = at
            for item in page:
                listed.add((item["metadata"]["namespace"], item["metadata"]["name"]))
                take(self.kind, None, item, self.store, self.wake)
        for server in self.store.absent(self.kind, self.namespace, listed, version):
            self.wake(server)
        return version


def of_children(
    kube: Kube, store: Store, wake: Wake, namespaces: tuple[str, ...], unwatchable: frozenset[Kind]
) -> list[Watch]:
    """Watches on all kinds of children that may be watched."""
    return [
        Watch(kube, store, wake, kind, namespace)
        for kind in CHILDREN
        if kind not in unwatchable
        for namespace in namespaces or ("",)
    ]


async def run_all(watches: list[Watch], known: asyncio.Event) -> None:
    """Run watches for ever; `known` is set once everything that is there is in the store."""
    async with asyncio.TaskGroup() as group:
        for watch in watches:
            group.create_task(watch.run())
        for watch in watches:
            await watch.known.wait()
        known.set()
