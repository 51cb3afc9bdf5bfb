"""Events carry what the tools that show them read."""

from __future__ import annotations

import asyncio

from tests.support.controllerparts import server
from tests.support.fakekube import FakeKube

from specdec.controller.clock import Clock
from specdec.controller.events import EventPoster
from specdec.rollout.world import Event


def test_kubectl_describe_can_sort_events_by_when_they_happened():
    kube, clock = FakeKube(), Clock(now=lambda: 1_800_000_000.25)
    poster = EventPoster(kube, clock, "operator-0")
    asyncio.run(poster.post(server()["metadata"], Event("Warning", "RolledBack", "v2 serves again")))
    (posted,) = kube.objects.values()
    assert (posted["apiVersion"], posted["involvedObject"]["name"]) == ("v1", "demo")
    assert posted["firstTimestamp"] == posted["lastTimestamp"] == "2027-01-15T08:00:00Z"
    assert posted["eventTime"] == "2027-01-15T08:00:00.250000Z"
