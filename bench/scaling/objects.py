"""The servers of the benchmark, and what our operator writes for one: the others write the very same."""

from __future__ import annotations

import json
from typing import Any

from specdec.api.base import API_VERSION, KIND
from specdec.api.v1alpha1 import SpecDecodeServer
from specdec.controller.status import rendered
from specdec.resources.labels import OPERATOR
from specdec.rollout.plan import plan
from specdec.rollout.world import ClaimView, Settings, World

NAMESPACE = "scale"
IMAGE = "registry.example/specdec/engine:1"
NAME, UID, REQUESTS = "server-name", "server-uid", 4
Manifest = dict[str, Any]


def server(name: str, **spec: Any) -> Manifest:
    """One server."""
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "target": {"model": "pvc://models/target"},
            "drafter": {"model": "pvc://models/drafters/v1"},
            "acceptance": {"minAcceptLength": "1.8", "minRequests": REQUESTS},
            # Its Job would stand between the first write and the rest, for a node that is not here.
            "preflight": {"mode": "Off"},
            **spec,
        },
    }


class Template:
    """Bodies of all writes for one server, by path; made once, filled in by replacing words."""

    def __init__(self) -> None:
        of = server(NAME)
        of["metadata"] |= {"uid": UID, "generation": 1}
        read = SpecDecodeServer.model_validate(of)
        world = World(read, Settings(IMAGE, ()), claims=(ClaimView("models", exists=True),))
        made = plan(world, {}, 1_800_000_000.0)
        self._objects = [(_path(item), json.dumps(item)) for item in made.objects]
        self._status = rendered(made.status)

    def objects(self, name: str, uid: str) -> list[tuple[str, bytes]]:
        """Path and body of every object of one server."""
        return [
            (path.replace(NAME, name), text.replace(NAME, name).replace(UID, uid).encode())
            for path, text in self._objects
        ]

    def status(self, generation: int) -> Manifest:
        """Status of one server."""
        return {**self._status, "observedGeneration": generation}


_PLURALS = {
    "ConfigMap": "api/v1/{}/configmaps",
    "Service": "api/v1/{}/services",
    "ControllerRevision": "apis/apps/v1/{}/controllerrevisions",
    "StatefulSet": "apis/apps/v1/{}/statefulsets",
    "PodDisruptionBudget": "apis/policy/v1/{}/poddisruptionbudgets",
}
APPLY = f"?fieldManager={OPERATOR}&force=true"
SERVERS = f"/apis/{API_VERSION}/namespaces/{NAMESPACE}/specdecodeservers"


def _path(item: Manifest) -> str:
    place = _PLURALS[item["kind"]].format(f"namespaces/{NAMESPACE}")
    return f"/{place}/{item['metadata']['name']}{APPLY}"
