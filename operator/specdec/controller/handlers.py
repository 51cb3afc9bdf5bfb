"""What kopf calls: the handler puts a server into the store and wakes its loop, no more.

Only `on.event` is used. Daemons, timers, delete, create and update handlers make kopf write finalizers and
annotations onto the user's object, and an uninstalled operator would leave it Terminating. What belongs to
servers is watched by `specdec.controller.watches`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import kopf
from typing_extensions import override

from specdec.controller.kinds import SPEC_DECODE_SERVER
from specdec.controller.kube import CONNECT_SECONDS
from specdec.controller.store import Store
from specdec.controller.watches import DEAF_SECONDS, RETRY_SECONDS, WATCH_SECONDS, Wake, take

LIST_SECONDS = 30.0
"""Kopf's list of all servers; kopf itself would wait five minutes for an API server that stands still."""


def registry(store: Store, wake: Wake) -> kopf.OperatorRegistry:
    """Handlers of all that kopf watches."""
    handlers = kopf.OperatorRegistry()
    kopf.on.login(registry=handlers)(_login)
    _server(handlers, store, wake)
    return handlers


def settings() -> kopf.OperatorSettings:
    """Kopf's settings: no events and no writes of its own, and a watch that outlives an API server."""
    chosen = kopf.OperatorSettings()
    chosen.posting.enabled = False
    # Discovery of namespaces and CRDs would need rights on both; what is served is known at the start.
    chosen.scanning.disabled = True
    chosen.watching.server_timeout = WATCH_SECONDS
    chosen.watching.client_timeout = WATCH_SECONDS + DEAF_SECONDS
    chosen.networking.connect_timeout = CONNECT_SECONDS
    chosen.networking.request_timeout = LIST_SECONDS
    chosen.networking.enforce_retry_after = True
    chosen.networking.error_backoffs = _Always(RETRY_SECONDS)
    chosen.persistence.diffbase_storage = _NoDiffs()
    chosen.persistence.progress_storage = _NoProgress()
    return chosen


@dataclass(frozen=True)
class _Always:
    """Delays without an end: kopf gives up, and with it the process, when they are used up."""

    seconds: float

    def __iter__(self) -> Iterator[float]:
        return itertools.repeat(self.seconds)


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


def _server(handlers: kopf.OperatorRegistry, store: Store, wake: Wake) -> None:
    kind = SPEC_DECODE_SERVER
    group, _, version = kind.api_version.rpartition("/")

    async def changed(event: kopf.RawEvent, **_: Any) -> None:
        take(kind, event["type"], event["object"], store, wake)

    kopf.on.event(group, version, kind.plural, id=f"{kind.plural}-changed", registry=handlers)(changed)
