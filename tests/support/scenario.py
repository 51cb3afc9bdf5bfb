"""Given, when, then: sentences about one server in a fake cluster and virtual time.

scenario.given.drafters(v1=1.0, v2=0.7).server("v1", floor="2.2").traffic(1)
scenario.when.time(60).drafter("v2").time(60)
scenario.then.active("v2").rollout("Idle")
"""

from __future__ import annotations

import copyreg
from collections.abc import Callable
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Self

from tests.support.merge import merged
from tests.support.scenario_agent import Model
from tests.support.scenario_cluster import FakeCluster

from specdec.api.conditions import ConditionType, find
from specdec.engine.protocol import Command, Counters, Rollback, Swap

Telling = Callable[[tuple[Counters, ...]], tuple[Counters, ...]]
FOLDER = "/models/models/drafters"
BASE: dict[str, Any] = {
    "target": {"model": "pvc://models/target"},
    "engine": {"image": "registry.example/specdec/engine:1"},
}


@dataclass
class Sentence:
    """What all three parts of a scenario share."""

    cluster: FakeCluster


class Given(Sentence):
    """What is there before anything happens."""

    def drafters(self, **models: float | Model) -> Self:
        """Drafter folders by version: the chance that a draft token is right, or a whole model."""
        for version, model in models.items():
            found = model if isinstance(model, Model) else Model(quality=model)
            self.cluster.models[f"{FOLDER}/{version}"] = found
        return self

    def slow_off(self) -> Self:
        """Engines that verify one token at a time while drafting is off."""
        self.cluster.off_is_plain = False
        return self

    def server(
        self, version: str | None, *, floor: str | None = None, replicas: int = 1, **spec: Any
    ) -> Self:
        """Apply the server for the first time."""
        wanted: dict[str, Any] = {"replicas": replicas}
        if version:
            wanted["drafter"] = {"model": f"pvc://models/drafters/{version}"}
        if floor:
            wanted["acceptance"] = {"minAcceptLength": floor}
        self.cluster.manifest["spec"] = merged(merged(BASE, wanted), spec)
        return self

    def traffic(self, rate: float) -> Self:
        """Users' requests a second on each pod."""
        self.cluster.rate = rate
        return self

    def no_claim(self) -> Self:
        """Leave the models' claim out."""
        self.cluster.claims.clear()
        return self

    def claim(self, *modes: str) -> Self:
        """Give the models' claim these access modes."""
        self.cluster.claims["models"] = modes
        return self

    def pods_in_trouble(self, **fields: str) -> Self:
        """Let every new pod hang, with these fields of its view."""
        self.cluster.trouble = fields
        return self


class When(Sentence):
    """What happens."""

    def time(self, seconds: float) -> Self:
        """Let time pass."""
        self.cluster.run(seconds)
        return self

    def drafter(self, version: str) -> Self:
        """A person applies another drafter version."""
        return self.spec(drafter={"model": f"pvc://models/drafters/{version}"})

    def spec(self, **fields: Any) -> Self:
        """A person applies a changed spec."""
        self.cluster.edit(**fields)
        return self

    def request(self, text: str) -> Self:
        """A person sets the annotation specdec.dev/request."""
        self.cluster.request = text
        self.cluster.next_pass = self.cluster.now
        return self

    def operator_gone(self) -> Self:
        """The operator is killed."""
        self.cluster.operator = False
        return self

    def operator_back(self) -> Self:
        """Another operator takes over, with nothing remembered."""
        self.cluster.operator = True
        self.cluster.judge = type(self.cluster.judge)()
        for pod in self.cluster.pods.values():
            pod.heard = None
        self.cluster.next_pass = self.cluster.now
        return self

    def engines_silent(self) -> Self:
        """No agent answers any more."""
        for pod in self.cluster.pods.values():
            pod.silent_since = self.cluster.now
        return self

    def engines_heard(self) -> Self:
        """All agents answer again."""
        for pod in self.cluster.pods.values():
            pod.silent_since = None
        return self

    def engines_tell(self, telling: Telling) -> Self:
        """Every agent makes this of its counters."""
        for pod in self.cluster.pods.values():
            pod.agent.telling = telling
        return self

    def engines_lie(self) -> Self:
        """Counters report more correct drafts than were drafted."""
        return self.engines_tell(
            lambda rows: tuple(row.model_copy(update={"correct": (row.calls * 9,) * 3}) for row in rows)
        )

    def engine_restarts(self) -> Self:
        """The engine's process of every pod ends and starts anew."""
        for pod in self.cluster.pods.values():
            assert self.cluster.launch_plan is not None
            pod.agent.restart(self.cluster.launch_plan)
        return self

    def quality(self, version: str, model: Model) -> Self:
        """What lies in a folder changes."""
        self.cluster.models[f"{FOLDER}/{version}"] = model
        return self

    def traffic(self, rate: float) -> Self:
        """Traffic changes."""
        self.cluster.rate = rate
        return self

    def claim(self, *modes: str) -> Self:
        """A person makes the models' claim."""
        self.cluster.claims["models"] = modes
        self.cluster.next_pass = self.cluster.now
        return self

    def pods_well(self) -> Self:
        """New pods start as they should."""
        self.cluster.trouble = {}
        return self


class Then(Sentence):
    """What must hold."""

    def serves(self, version: str, *, pods: int | None = None) -> Self:
        """Users' requests are answered with this drafter on all pods, one at least, or on so many."""
        served = [pod.agent.paths.get(pod.agent.serving, "") for pod in self.cluster.pods.values()]
        count = sum(path == f"{FOLDER}/{version}" for path in served)
        assert count == (max(len(served), 1) if pods is None else pods), served
        return self

    def active(self, version: str) -> Self:
        """The status names this drafter as what serves."""
        assert self.cluster.status.active is not None
        assert self.cluster.status.active.version == version
        return self

    def last_good(self, version: str | None) -> Self:
        """A rollback would return to this drafter."""
        good = self.cluster.status.last_good
        assert (good.version if good else None) == version
        return self

    def rollout(self, word: str) -> Self:
        """The printer column reads so."""
        assert self.cluster.status.rollout == word, self.cluster.status.rollout
        return self

    def condition(self, type_: str, status: str, reason: str | None = None) -> Self:
        """A condition stands so."""
        found = find(self.cluster.status.conditions, ConditionType(type_))
        assert found is not None
        assert (found.status, found.reason if reason else None) == (status, reason), found
        assert found.observed_generation == self.cluster.server.generation
        return self

    def says(self, type_: str, words: str) -> Self:
        """A condition's message holds these words."""
        found = find(self.cluster.status.conditions, ConditionType(type_))
        assert found is not None
        assert words in found.message
        return self

    def drafting(self, mode: str) -> Self:
        """All engines draft, or none."""
        assert {pod.agent.status().drafting.value for pod in self.cluster.pods.values()} == {mode}
        return self

    def event(self, reason: str, part: str = "", *, times: int | None = None) -> Self:
        """An event was posted, so often if that is said."""
        found = [e.message for e in self.cluster.events if e.reason == reason and part in e.message]
        everything = [(e.reason, e.message) for e in self.cluster.events]
        assert found if times is None else len(found) == times, everything
        return self

    def no_event(self, reason: str) -> Self:
        """No such event was posted."""
        return self.event(reason, times=0)

    def swaps(self, version: str, times: int) -> Self:
        """Pods were told so often to swap this drafter in."""
        told = [c for c in self.told(Swap) if isinstance(c, Swap) and c.drafter.version == version]
        assert len(told) == times, told
        return self

    def rollbacks(self, times: int) -> Self:
        """Pods were told so often to go back."""
        assert len(self.told(Rollback)) == times
        return self

    def told(self, verb: type[Command]) -> list[Command]:
        """All commands of a kind that pods took, also those that are gone."""
        return [command for _, command in self.cluster.told if isinstance(command, verb)]

    def pods_made(self, count: int) -> Self:
        """So many pods were made since the beginning: none was restarted for nothing."""
        assert self.cluster.made == count
        return self

    def quiet(self, seconds: float = 120.0) -> Self:
        """Nothing is written or told any more, whatever time passes."""
        writes, plans = self.cluster.status_writes, len(self.cluster.plans)
        objects = len(self.cluster.object_writes)
        self.cluster.run(seconds)
        assert self.cluster.status_writes == writes, self.cluster.status
        assert not self.cluster.object_writes[objects:], self.cluster.object_writes[objects:]
        later = self.cluster.plans[plans:]
        assert later
        assert not [p for p in later if p.commands or p.deletions or p.events]
        return self


# The judge's state is frozen in mapping proxies, which copy.deepcopy does not know by itself.
copyreg.pickle(MappingProxyType, lambda proxy: (MappingProxyType, (dict(proxy),)))


class Scenario:
    """One server's story; `copy.deepcopy` makes two of it that go on apart."""

    def __init__(self, seed: int = 1) -> None:
        metadata = {"name": "kimi", "namespace": "llm", "uid": "uid-0", "generation": 1}
        self.cluster = FakeCluster({"metadata": metadata, "spec": {}}, {}, seed=seed)
        self.given, self.when, self.then = Given(self.cluster), When(self.cluster), Then(self.cluster)
