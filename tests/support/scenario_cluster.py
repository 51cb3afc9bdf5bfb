"""A fake cluster for scenarios: applies plans, keeps pods, and lets virtual time pass."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from tests.support.merge import merged
from tests.support.scenario_agent import FakeAgent, Model, judged

from specdec.api.v1alpha1 import SpecDecodeServer, SpecDecodeServerStatus
from specdec.controller.status import essence, rendered
from specdec.engine.protocol import Command, LaunchPlan, Phase
from specdec.resources import launch_plan_of, revision_record
from specdec.resources.labels import RESTART_HASH
from specdec.resources.preflight import KEPT_SECONDS
from specdec.rollout.evidence import Judge
from specdec.rollout.plan import plan
from specdec.rollout.world import (
    ClaimView,
    Event,
    Plan,
    PodView,
    PreflightJob,
    RevisionRecord,
    Settings,
    World,
)

STEP_SECONDS = 0.5
JOB_SECONDS = 2.0
SETTINGS = Settings("registry.example/specdec/engine:1", ("registry.example/specdec/",))


@dataclass
class FakePod:
    """One pod of the StatefulSet."""

    name: str
    uid: str
    created: float
    restart_hash: str
    agent: FakeAgent
    was_ready: bool = False
    silent_since: float | None = None
    heard: Any = None
    trouble: dict[str, str] = field(default_factory=dict)


@dataclass
class FakeJob:
    """One preflight's Job."""

    order: LaunchPlan
    created: float
    trouble: dict[str, str] = field(default_factory=dict)

    def view(self, name: str, models: dict[str, Model], now: float) -> PreflightJob:
        """What the planner sees of it."""
        assert self.order.drafter is not None
        pod = PodView(f"{name}-x", f"uid-of-{name}", self.created)
        revision, done = self.order.revision, now - self.created >= JOB_SECONDS and not self.trouble
        model = models.get(self.order.drafter.path)
        result = judged(revision, self.order.preflight, model, now) if done else None
        return PreflightJob(name, revision, self.created, result, pod=replace(pod, **self.trouble))


@dataclass
class FakeCluster:
    """Everything that the planner sees, and what becomes of its plans."""

    manifest: dict[str, Any]
    models: dict[str, Model]
    now: float = 1_800_000_000.0
    seed: int = 1
    operator: bool = True
    rate: float = 0.0
    """Users' requests a second on each pod."""
    hard_traffic: dict[str, float] = field(default_factory=dict)
    """Factor on the drafters' quality of the requests that reach a pod: tenants who stick to it."""
    idle: set[str] = field(default_factory=set)
    """Pods that users' requests don't reach."""
    claims: dict[str, tuple[str, ...]] = field(default_factory=lambda: {"models": ("ReadOnlyMany",)})
    pods: dict[str, FakePod] = field(default_factory=dict)
    revisions: dict[str, RevisionRecord] = field(default_factory=dict)
    launch_plan: LaunchPlan | None = None
    workload: dict[str, Any] | None = None
    status: SpecDecodeServerStatus = field(default_factory=SpecDecodeServerStatus)
    jobs: dict[str, FakeJob] = field(default_factory=dict)
    jobs_made: int = 0
    request: str = ""
    events: list[Event] = field(default_factory=list)
    told_at: list[float] = field(default_factory=list)
    """When each event was posted."""
    plans: list[Plan] = field(default_factory=list)
    status_writes: int = 0
    object_writes: list[tuple[str, str]] = field(default_factory=list)
    """Kind and name of each object that was applied and differed from what stood."""
    told: list[tuple[str, Command]] = field(default_factory=list)
    """Commands that pods took, by the pod's UID: also of pods that are gone."""
    judge: Judge = field(default_factory=Judge)
    made: int = 0
    owed: float = 0.0
    next_pass: float = 0.0
    trouble: dict[str, str] = field(default_factory=dict)
    """PodView fields of every new pod: an image that doesn't pull, no node."""
    start_failure: tuple[str, str] | None = None
    """Reason and message for which no new engine starts."""
    off_is_plain: bool = True
    """Whether engines decode as a server without a drafter while drafting is off."""
    most_down: int = 0
    """Most pods that were not ready at once, of those that had been."""
    shape: list[Any] = field(default_factory=list)
    applied: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    effects: int = 0
    """Writes and commands so far that changed anything."""
    dies_after: int | None = None
    """The operator is killed before it does more than so many."""

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)

    @property
    def server(self) -> SpecDecodeServer:
        """The server as the API server has it."""
        return SpecDecodeServer.model_validate(self.manifest).model_copy(update={"status": self.status})

    @property
    def world(self) -> World:
        """What the operator observes."""
        return World(
            server=self.server,
            settings=SETTINGS,
            pods=tuple(self._view(pod) for pod in self.pods.values()),
            claims=tuple(
                ClaimView(name, exists=name in self.claims, access_modes=self.claims.get(name, ()))
                for name in ("models",)
            ),
            revisions=tuple(self.revisions.values()),
            launch_plan=self.launch_plan,
            workload=self.workload,
            request=self.request,
            preflights=tuple(job.view(name, self.models, self.now) for name, job in self.jobs.items()),
        )

    def edit(self, **spec: Any) -> None:
        """Apply a changed spec, as kubectl would."""
        self.manifest["spec"] = merged(self.manifest["spec"], spec)
        self.manifest["metadata"]["generation"] += 1
        self.next_pass = self.now

    def run(self, seconds: float) -> None:
        """Let time pass."""
        until = self.now + seconds
        while self.now < until:
            self.step()

    def step(self) -> None:
        """Let one step pass: agents, traffic, kubelet, then the operator if its time has come."""
        self.now += STEP_SECONDS
        self.owed += self.rate * STEP_SECONDS
        for pod in self.pods.values():
            pod.agent.tick(self.now)
            pod.was_ready = pod.was_ready or self._ready(pod)
        while self.owed >= 1:
            self.owed -= 1
            for pod in self.pods.values():
                if pod.name not in self.idle:
                    pod.agent.serve(self.rng.randint(10, 14), self.hard_traffic.get(pod.name, 1.0))
        self._statefulset()
        kept = JOB_SECONDS + KEPT_SECONDS
        for name in [
            name for name, job in self.jobs.items() if self.now - job.created >= kept and not job.trouble
        ]:
            del self.jobs[name]
            self.applied.pop(("Job", name), None)
        down = sum(not self._ready(pod) for pod in self.pods.values() if pod.was_ready)
        self.most_down = max(self.most_down, down)
        shape = [(pod.uid, self._ready(pod), pod.agent.phase) for pod in self.pods.values()]
        shape += [(name, self.now - job.created >= JOB_SECONDS) for name, job in self.jobs.items()]
        if shape != self.shape:  # the watches wake the loop
            self.shape, self.next_pass = shape, self.now
        if self.operator and self.now >= self.next_pass:
            self.reconcile()

    def reconcile(self) -> Plan:
        """Make one pass of the operator."""
        world = self.world
        evidence = self.judge.evidence(world, self.now)
        made = plan(world, evidence, self.now)
        self.carry_out(made)
        self.next_pass = self.now + min(made.requeue_after, made.poll_seconds)
        return made

    def carry_out(self, made: Plan) -> None:
        """Objects, commands, deletions, status, events; the operator may die between any two of them."""
        self.plans.append(made)
        for effect in self._effects(made):
            if self.dies_after is not None and self.effects >= self.dies_after:
                self.operator = False
                return
            self.effects += 1
            effect()

    def _effects(self, made: Plan) -> Iterator[Callable[[], object]]:
        """Yield what changes anything, in its order."""
        for manifest in made.objects:
            key = (manifest["kind"], manifest["metadata"]["name"])
            if self.applied.get(key) != manifest:
                yield partial(self._applied, key, manifest)
        floor = max([0, *(pod.agent.assignment for pod in self.pods.values())])
        for number, order in enumerate(made.commands, 1):
            pod = self.pods.get(order.pod)
            if pod is not None and pod.silent_since is None:
                yield partial(self._ordered, pod, order.command, floor + number)
        for item in made.deletions:
            yield partial(self._deleted, item)
        fresh = SpecDecodeServerStatus.model_validate_json(made.status.model_dump_json(by_alias=True))
        if fresh != self.status:
            yield partial(self._written, fresh)
        if made.events:
            yield partial(self._posted, made.events)

    def _ordered(self, pod: FakePod, command: Command, assignment: int) -> None:
        self.told.append((pod.uid, command))
        pod.agent.take(command, assignment)

    def _written(self, fresh: SpecDecodeServerStatus) -> None:
        # Figures alone move with the traffic; the writer lets them wait.
        self.status_writes += essence(rendered(fresh)) != essence(rendered(self.status))
        self.status = fresh

    def _posted(self, events: tuple[Event, ...]) -> None:
        self.events += events
        self.told_at += [self.now] * len(events)

    def _deleted(self, item: dict[str, str]) -> None:
        if item["kind"] == "ControllerRevision":
            del self.revisions[item["name"]]
            self.applied.pop((item["kind"], item["name"]), None)
        pod = self.pods.get(item["name"])
        if pod is not None and item["kind"] == "Pod" and pod.uid == item["uid"]:
            del self.pods[pod.name]

    def _applied(self, key: tuple[str, str], manifest: dict[str, Any]) -> None:
        self.object_writes.append(key)
        self.applied[key] = copy.deepcopy(manifest)
        match manifest["kind"]:
            case "ConfigMap":
                self.launch_plan = launch_plan_of(manifest)
            case "ControllerRevision":
                record = revision_record(manifest)
                self.revisions[record.name] = replace(record, uid=f"uid-of-{record.name}")
            case "Job" if manifest["metadata"]["name"] not in self.jobs:
                self.jobs_made += 1
                (container,) = manifest["spec"]["template"]["spec"]["containers"]
                (text,) = [item["value"] for item in container["env"] if item["name"] == "SPECDEC_PLAN"]
                job = FakeJob(LaunchPlan.model_validate_json(text), self.now, dict(self.trouble))
                self.jobs[manifest["metadata"]["name"]] = job
            case "StatefulSet":
                self.workload = manifest
                self._statefulset()
            case _:
                pass

    def _statefulset(self) -> None:
        """Make missing pods, and replace one that is outdated and not held by the partition."""
        if self.workload is None or self.launch_plan is None:
            return
        spec = self.workload["spec"]
        wanted = spec["template"]["metadata"]["labels"][RESTART_HASH]
        name = self.workload["metadata"]["name"]
        names = [f"{name}-{number}" for number in range(spec["replicas"])]
        for gone in set(self.pods) - set(names):
            del self.pods[gone]
        partition = spec["updateStrategy"]["rollingUpdate"]["partition"]
        if all(pod in self.pods and self._ready(self.pods[pod]) for pod in names):
            for number in range(len(names) - 1, partition - 1, -1):
                if self.pods[names[number]].restart_hash != wanted:
                    del self.pods[names[number]]
                    break
        for pod in names:
            if pod not in self.pods:
                self._make(pod, wanted)

    def _make(self, name: str, restart_hash: str) -> None:
        assert self.launch_plan is not None
        self.made += 1
        uid = f"uid-{self.made}"
        agent = FakeAgent(
            uid, self.launch_plan, self.models, self.now, self.rng,
            failure=self.start_failure, plain=self.off_is_plain,
        )  # fmt: skip
        self.pods[name] = FakePod(name, uid, self.now, restart_hash, agent, trouble=dict(self.trouble))

    def _ready(self, pod: FakePod) -> bool:
        return pod.agent.phase is Phase.SERVING and not pod.trouble

    def _view(self, pod: FakePod) -> PodView:
        if pod.silent_since is None and not pod.trouble:
            pod.heard = (pod.agent.status(), self.now)
        status, at = pod.heard or (None, None)
        view = PodView(
            name=pod.name,
            uid=pod.uid,
            created=pod.created,
            ready=self._ready(pod),
            restart_hash=pod.restart_hash,
            was_ready=pod.was_ready,
            status=status,
            heard_at=at,
        )
        return replace(view, **pod.trouble)
