"""What kopf calls: every handler puts an object into the store and wakes its server's loop, no more.

Only `on.event` and `index` are used. Daemons, timers, delete, create and update handlers make kopf write
finalizers and annotations onto the user's object, and an uninstalled operator would leave it Terminating.
The indexes are not read: kopf calls no handler before all of them are filled, so that no loop starts
before all children of its server are known.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import kopf
from typing_extensions import override

from specdec.controller.kinds import CHILDREN, SPEC_DECODE_SERVER, Kind
from specdec.controller.store import Key, Store, server_of

WATCH_SECONDS = 300
"""The API server ends a watch after this long; kopf begins the next one where it ended."""

Wake = Callable[[Key], None]


def registry(store: Store, wake: Wake, unwatchable: frozenset[Kind] = frozenset()) -> kopf.OperatorRegistry:
    """Handlers of everything that is watched."""
    handlers = kopf.OperatorRegistry()
    kopf.on.login(registry=handlers)(_login)
    for kind in CHILDREN:
        if kind not in unwatchable:
            _child(handlers, kind, store, wake)
    _server(handlers, store, wake)
    return handlers


def settings(unwatchable: frozenset[Kind] = frozenset()) -> kopf.OperatorSettings:
    """Kopf's settings: filtered watches, no events and no writes of its own."""
    chosen = kopf.OperatorSettings()
    chosen.posting.enabled = False
    # Discovery of namespaces and CRDs would need rights on both; what is served is known at the start.
    chosen.scanning.disabled = True
    chosen.watching.server_timeout = WATCH_SECONDS
    chosen.networking.enforce_retry_after = True
    chosen.persistence.diffbase_storage = _NoDiffs()
    chosen.persistence.progress_storage = _NoProgress()
    for kind in CHILDREN:
        if kind not in unwatchable:
            group, _, version = kind.api_version.rpartition("/")
            chosen.watching.label_selectors[group, version, kind.plural] = kind.label
    return chosen


class _NoDiffs(kopf.DiffBaseStorage):  # type: ignore[misc]  # kopf is not followed
    """No handler of ours asks what changed: without this, kopf copies each object of each event to compare it."""

    @override
    def build(self, **_: Any) -> kopf.BodyEssence:
        return kopf.BodyEssence()

    @override
    def fetch(self, **_: Any) -> None:
        return None

    @override
    def store(self, **_: Any) -> None:
        return None


class _NoProgress(kopf.ProgressStorage):  # type: ignore[misc]  # kopf is not followed
    """No handler of ours is tried again by kopf."""

    @override
    def fetch(self, **_: Any) -> None:
        return None

    @override
    def store(self, **_: Any) -> None:
        return None

    @override
    def purge(self, **_: Any) -> None:
        return None

    @override
    def touch(self, **_: Any) -> None:
        return None

    @override
    def clear(self, *, essence: kopf.BodyEssence) -> kopf.BodyEssence:
        return essence


async def _login(**context: Any) -> kopf.ConnectionInfo | None:
    return kopf.login_with_service_account(**context) or kopf.login_with_kubeconfig(**context)


def take(kind: Kind, event_type: str | None, body: Any, store: Store, wake: Wake) -> None:
    """Take what a watch says of one object, and wake its server's loop if it is news."""
    manifest = _plain(kind, body)
    if event_type == "DELETED":
        store.drop(manifest)
    elif not store.put(manifest):
        return  # known already: our own write, or an older version that came late
    _wake_server(manifest, wake)


def _child(handlers: kopf.OperatorRegistry, kind: Kind, store: Store, wake: Wake) -> None:
    group, _, version = kind.api_version.rpartition("/")
    name = kind.plural

    async def seen(body: kopf.Body, **_: Any) -> None:
        take(kind, None, body, store, wake)

    async def changed(event: kopf.RawEvent, **_: Any) -> None:
        # What is not deleted was taken by the index already.
        if event["type"] == "DELETED":
            take(kind, "DELETED", event["object"], store, wake)

    kopf.index(group, version, name, id=f"{name}-seen", registry=handlers)(seen)
    kopf.on.event(group, version, name, id=f"{name}-changed", registry=handlers)(changed)


def _server(handlers: kopf.OperatorRegistry, store: Store, wake: Wake) -> None:
    kind = SPEC_DECODE_SERVER
    group, _, version = kind.api_version.rpartition("/")

    async def changed(event: kopf.RawEvent, **_: Any) -> None:
        take(kind, event["type"], event["object"], store, wake)

    kopf.on.event(group, version, kind.plural, id=f"{kind.plural}-changed", registry=handlers)(changed)


def _wake_server(manifest: dict[str, Any], wake: Wake) -> None:
    server = server_of(manifest)
    if server is not None:
        wake(server)


def _plain(kind: Kind, body: Any) -> dict[str, Any]:
    """Make a plain object of kopf's view; lists leave kind and version out of their items."""
    return {**dict(body), "apiVersion": kind.api_version, "kind": kind.kind}
