"""The operator is killed at ten points of a rollout on the real API server: it ends as if it had lived.

Servers at the same time, each with a namespace and an operator's process of its own; one operator lives. `make nightly`
takes all ten points. The pods are made by Kubernetes' own controllers; their agents are fakes, since no node has room for twenty-two engines.
`tests/scenarios/test_killed.py` and `tests/faults` take every point, in virtual time.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.faults.stories import FOLDER, QUALITY, spec
from tests.support import install
from tests.support.fakepods import NO_NODE, FakePods
from tests.support.gate import Gate, Point
from tests.support.kubeapi import KubeApi, kube_api
from tests.support.kubectl import apply, condition, kubectl
from tests.support.operatorprocess import OperatorProcess

from specdec.controller.kinds import CONTROLLER_REVISION, SPEC_DECODE_SERVER
from specdec.resources import revision_record
from specdec.resources.labels import REVISION_OF

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

POINTS = (
    Point("create controllerrevisions"),
    Point("patch specdecodeservers/status"),
    Point("Swap"),
    Point("patch specdecodeservers/status", 3),
    Point("patch controllerrevisions"),
    Point("Swap", 2),
    Point("patch controllerrevisions", 2),
    Point("patch configmaps"),
    Point("Promote"),
    Point("Promote", 2),
)
"""What has just been done when the operator dies, in the order of a rollout; before it knows that it was."""
SOON = (POINTS[1], POINTS[2], POINTS[4], POINTS[8])
"""Between two nights: after the first word to the user, the first swap, the first record, and the first promotion."""
IMAGE = "registry.example/specdec/engine:1"
SERVER = "kimi"
PATIENCE_SECONDS = 150.0
LOOK_SECONDS = 0.5
QUIET_SECONDS = 4.0


def namespace_of(point: Point | None) -> str:
    """Namespace of the server whose operator dies there, or lives."""
    return f"specdec-killed-{number_of(point)}"


def number_of(point: Point | None) -> int:
    """Place among the points; the operator that lives has the last one."""
    return len(POINTS) if point is None else POINTS.index(point)


@pytest.fixture
def alone(points: tuple[Point, ...]) -> Iterator[None]:
    """Namespaces with claims, and no operator but the test's own."""
    install.scale_operator(0)
    names = [namespace_of(point) for point in (*points, None)]
    claim = {
        "accessModes": ["ReadOnlyMany"],
        "storageClassName": "",
        "resources": {"requests": {"storage": "1Gi"}},
    }
    objects: list[dict[str, Any]] = []
    for name in names:
        objects += [
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}},
            {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "models", "namespace": name}, "spec": claim},
        ]  # fmt: skip
    try:
        apply(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
        yield
    finally:
        kubectl("delete", "namespace", *names, "--ignore-not-found", "--timeout=90s", seconds=100)
        install.scale_operator(1)


def manifest(namespace: str, version: str) -> dict[str, Any]:
    """A server of two engines that no node takes."""
    engine = {"scheduling": {"nodeSelector": NO_NODE}}
    wanted = spec(version, replicas=2, engine=engine, preflight={"mode": "Off"})
    head = {"apiVersion": SPEC_DECODE_SERVER.api_version, "kind": SPEC_DECODE_SERVER.kind}
    return {**head, "metadata": {"name": SERVER, "namespace": namespace}, "spec": wanted}


@dataclass
class Life:
    """One server, its pods and its operator."""

    api: KubeApi
    namespace: str
    gate: Gate
    pods: FakePods

    async def promoted(self, version: str) -> None:
        """Wait until a version is promoted on both engines, and nothing more is changed."""
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                while True:
                    if await self._serves(version) and self.gate.quiet(QUIET_SECONDS):
                        return
                    await asyncio.sleep(LOOK_SECONDS)
        except TimeoutError:
            status = (await self.server()).get("status", {})
            raise TimeoutError(
                f"waited {PATIENCE_SECONDS:.0f} s for {version} in {self.namespace}, after {self.gate.changes}: {status}"
            ) from None

    async def server(self) -> dict[str, Any]:
        """Fetch the server."""
        return await self.api.get(SPEC_DECODE_SERVER, self.namespace, SERVER)

    async def _serves(self, version: str) -> bool:
        thing = await self.server()
        held = [condition(thing, kind).get("status") for kind in ("DrafterCurrent", "Ready")]
        return held == ["True", "True"] and thing["status"].get("lastGood", {}).get("version") == version

    async def end(self) -> dict[str, Any]:
        """What must be the same, whenever the operator was killed."""
        status, plan = (await self.server())["status"], await self.pods.plan()
        label = f"{REVISION_OF}={SERVER}"
        found = await self.api.items(CONTROLLER_REVISION, self.namespace, label)
        records = [revision_record(item) for item in found]
        agents = [pod.agent for pod in self.pods.pods.values()]
        assert plan.drafter is not None
        return {
            "revisions": sorted((r.data["drafter"]["model"], r.outcome, r.reason) for r in records),
            "plan": (plan.drafter.path, plan.arguments, plan.drafting),
            "engines": [(a.paths[a.promoted], a.paths[a.serving], a.drafting, a.deadline) for a in agents],
            "conditions": sorted((c["type"], c["status"], c["reason"]) for c in status["conditions"]),
            "drafters": [
                (status.get(name) or {}).get("version") for name in ("active", "lastGood", "candidate")
            ],
            "status": [
                status.get(name) for name in ("phase", "rollout", "replicas", "readyReplicas", "quarantine")
            ],
        }

    @property
    def swaps(self) -> int:
        """How often an engine was given another drafter."""
        return sum(len(pod.swapped_in) for pod in self.pods.pods.values())


async def told(folder: Path, api: KubeApi, point: Point | None) -> tuple[Life, dict[str, Any]]:
    """Roll v2 out after v1, with an operator that dies at a point and is started again; returns the end."""
    namespace = namespace_of(point)
    process = OperatorProcess(folder, namespace, IMAGE)
    gate = Gate(api.url, point, process.kill)
    models = {f"{FOLDER}/{name}": model for name, model in QUALITY.items()}
    life = Life(
        api, namespace, gate, FakePods(api, gate, namespace, SERVER, f"127.78.{number_of(point)}", models)
    )
    async with gate.opened() as url, life.pods.running():
        await process.start(url)
        try:
            await api.apply(SPEC_DECODE_SERVER, manifest(namespace, "v1"))
            await life.promoted("v1")
            gate.armed = True
            await api.apply(SPEC_DECODE_SERVER, manifest(namespace, "v2"))
            if point is not None:
                await asyncio.wait_for(gate.dead.wait(), PATIENCE_SECONDS)
                await process.start(url)
            await life.promoted("v2")
            return life, await life.end()
        finally:
            process.kill()
            await process.ended()


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize(
    "points", [SOON, pytest.param(POINTS, marks=pytest.mark.nightly)], ids=["soon", "all"]
)
async def test_it_ends_as_if_the_operator_had_lived(points: tuple[Point, ...], tmp_path: Path):
    async with kube_api() as api:
        *killed, (straight, wanted) = await asyncio.gather(
            *(told(tmp_path, api, point) for point in (*points, None))
        )
    print(f"changes of a rollout: {straight.gate.changes}")
    for point, (life, end) in zip(points, killed, strict=True):
        assert end == wanted, point
        assert life.swaps <= straight.swaps + 1, point
