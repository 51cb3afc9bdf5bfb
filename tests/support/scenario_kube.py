"""A scenario's cluster as an API server shows it: what the command line reads, and how time passes while it waits."""

from __future__ import annotations

from typing import Any

from click.testing import CliRunner, Result
from tests.support.fakekube import FakeKube
from tests.support.scenario import Scenario

from specdec.api.base import API_VERSION, KIND
from specdec.cli.cluster import Cluster, Where
from specdec.cli.main import specdec
from specdec.controller.observe import REQUEST
from specdec.controller.status import rendered
from specdec.resources import controller_revision
from specdec.resources.labels import RESTART_HASH, SERVER
from specdec.rollout.clock import exact, text

BORN = 1_799_990_000.0


class ScenarioKube:
    """An API server that shows a scenario."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.kube = FakeKube()
        self.where = Where()
        self.refresh()

    async def connect(self, where: Where) -> Cluster:
        """Stand in for `specdec.cli.cluster.connect`."""
        self.where = where
        now = lambda: self.scenario.cluster.now  # noqa: E731
        return Cluster(self.kube, where.namespace or "llm", now, self.sleep)

    async def sleep(self, seconds: float) -> None:
        """Let the scenario go on, with what was asked for meanwhile."""
        live = self.kube.objects[KIND, "llm", "kimi"]
        self.scenario.when.request(live["metadata"].get("annotations", {}).get(REQUEST, ""))
        self.scenario.when.time(max(seconds, 0.5))
        self.refresh()

    def refresh(self) -> None:
        """Show the scenario as it is now."""
        cluster = self.scenario.cluster
        annotations = (
            self.kube.objects.get((KIND, "llm", "kimi"), {}).get("metadata", {}).get("annotations", {})
        )
        self.kube.objects.clear()
        metadata = {
            "creationTimestamp": text(BORN),
            "annotations": annotations,
            **cluster.manifest["metadata"],
        }
        head = {"apiVersion": API_VERSION, "kind": KIND, "metadata": metadata}
        self.kube.add({**head, "spec": cluster.manifest["spec"], "status": rendered(cluster.status)})
        applied = {
            (item["kind"], item["metadata"]["name"]): item for plan in cluster.plans for item in plan.objects
        }
        for item in applied.values():
            if item["kind"] != "ControllerRevision":
                self.kube.add(item)
        for record in cluster.revisions.values():
            self.kube.add(controller_revision(cluster.server, record))
        for name, modes in cluster.claims.items():
            self._add("PersistentVolumeClaim", name, spec={"accessModes": list(modes)})
        for event, at in zip(cluster.events, cluster.told_at, strict=True):
            about = {"involvedObject": {"kind": KIND, "name": "kimi"}, "eventTime": exact(at)}
            name = f"kimi.{len(self.kube.objects)}"
            self._add(
                "Event", name, type=event.type, reason=str(event.reason), message=event.message, **about
            )
        self._pods()

    def _pods(self) -> None:
        workload: Any = self.kube.objects.get(("StatefulSet", "llm", "kimi"), {"metadata": {"uid": ""}})
        for pod in self.scenario.cluster.pods.values():
            metadata = {
                "uid": pod.uid,
                "creationTimestamp": text(pod.created),
                "labels": {RESTART_HASH: pod.restart_hash, SERVER: "kimi"},
                "ownerReferences": [{"uid": workload["metadata"]["uid"]}],
            }
            conditions = [{"type": "Ready", "status": "True"}]
            self._add("Pod", pod.name, status={"conditions": conditions}, more=metadata)
            if pod.silent_since is None:
                self.kube.served[f"{pod.name}:8701", "status"] = pod.agent.status().model_dump(
                    mode="json", by_alias=True
                )

    def _add(self, kind: str, name: str, *, more: dict[str, Any] | None = None, **fields: Any) -> None:
        self.kube.add(
            {"kind": kind, "metadata": {"name": name, "namespace": "llm", **(more or {})}, **fields}
        )

    def call(self, *words: str, stdin: str | None = None) -> Result:
        """Run a command line against it."""
        return CliRunner().invoke(specdec, list(words), input=stdin, prog_name="kubectl specdec")
