"""Kubernetes Events on a server: one for each transition, never the same one again and again."""

from __future__ import annotations

import logging
import uuid
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any

from specdec.api.base import API_VERSION, KIND
from specdec.controller.clock import Clock
from specdec.controller.kinds import EVENT
from specdec.controller.kube import Kube, KubeError
from specdec.controller.text import fit
from specdec.resources.labels import OPERATOR
from specdec.rollout.clock import exact, text
from specdec.rollout.world import Event

log = logging.getLogger(__name__)

REPEAT_SECONDS = 3600.0
"""The same sentence about the same generation is posted again after this long at the earliest."""
REMEMBERED = 256
MESSAGE_LENGTH = 1024
"""The API server's bound of an Event's message."""


@dataclass(slots=True)
class EventPoster:
    """Posts the events of one server."""

    kube: Kube
    clock: Clock
    identity: str
    _posted: OrderedDict[tuple[str, ...], float] = field(default_factory=OrderedDict)

    async def post(self, metadata: dict[str, Any], event: Event) -> None:
        """Post one event on the server of this metadata, unless it was posted lately; a lost event stops nothing."""
        key = (metadata["uid"], str(metadata.get("generation", 0)), event.type, event.reason, event.message)
        now = self.clock.monotonic()
        if now - self._posted.get(key, float("-inf")) < REPEAT_SECONDS:
            return
        self._posted[key] = now
        self._posted.move_to_end(key)
        while len(self._posted) > REMEMBERED:
            self._posted.popitem(last=False)
        try:
            await self.kube.create(EVENT, metadata["namespace"], self._manifest(metadata, event))
        except KubeError as error:
            log.warning("event %s not posted: %s", event.reason, error)

    def _manifest(self, metadata: dict[str, Any], event: Event) -> dict[str, Any]:
        """Render an event of the core API: `kubectl describe` sorts by lastTimestamp, which events.k8s.io/v1 forbids."""
        now = self.clock.now()
        return {
            "apiVersion": EVENT.api_version,
            "kind": EVENT.kind,
            "metadata": {
                "name": f"{metadata['name']}.{uuid.uuid4().hex[:16]}",
                "namespace": metadata["namespace"],
            },
            "eventTime": exact(now),
            "firstTimestamp": text(now),
            "lastTimestamp": text(now),
            "count": 1,
            "source": {"component": OPERATOR},
            "reportingComponent": OPERATOR,
            "reportingInstance": self.identity[:128],
            "action": "Reconcile",
            "type": event.type,
            "reason": event.reason[:128],
            "message": fit(event.message, MESSAGE_LENGTH),
            "involvedObject": {
                "apiVersion": API_VERSION,
                "kind": KIND,
                "namespace": metadata["namespace"],
                "name": metadata["name"],
                "uid": metadata["uid"],
            },
        }
