"""What must hold whatever happens, found out by random stories."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.scenario import Scenario
from tests.support.scenario_agent import Model

from specdec.engine.protocol import Drafting, Phase, Swap
from specdec.rollout.quarantine import REJECTED
from specdec.rollout.swapping import RETRY_SECONDS

Act = Callable[[Scenario], object]

VERSIONS = ("good", "fair", "weak", "dead", "refused", "missing")


def applies(version: str) -> Act:
    return lambda s: s.when.drafter(version)


def undo(scenario: Scenario) -> None:
    """Ask for the oldest revision that there is."""
    oldest = min(scenario.cluster.revisions.values(), key=lambda record: record.number)
    scenario.when.request(f"undo@{oldest.name}@{scenario.cluster.now}")


ACTS: dict[str, Act] = {
    **{f"apply {version}": applies(version) for version in VERSIONS},
    "engine restarts": lambda s: s.when.engine_restarts(),
    "operator gone": lambda s: s.when.operator_gone(),
    "operator back": lambda s: s.when.operator_back(),
    "paused": lambda s: s.when.spec(rollout={"paused": True}),
    "resumed": lambda s: s.when.spec(rollout={"paused": False}),
    "off": lambda s: s.when.spec(drafting="Off"),
    "auto": lambda s: s.when.spec(drafting="Auto"),
    "longer context": lambda s: s.when.spec(engine={"contextLength": 4096}),
    "shorter context": lambda s: s.when.spec(engine={"contextLength": 2048}),
    "undo": undo,
    "idle": lambda s: s.when.traffic(0),
    "busy": lambda s: s.when.traffic(1),
    "measured": lambda s: s.when.spec(acceptance={"baseline": "Measure"}),
    "not measured": lambda s: s.when.spec(acceptance={"baseline": "Off"}),
    "does not pay": lambda s: s.when.quality("good", Model(0.9, speedup=0.7)),
    "pays": lambda s: s.when.quality("good", Model(0.9)),
    "silent": lambda s: s.when.engines_silent(),
    "heard": lambda s: s.when.engines_heard(),
    "sticky": lambda s: s.cluster.hard_traffic.update({"kimi-0": 0.6}),
    "even": lambda s: s.cluster.hard_traffic.clear(),
}

stories = st.lists(st.tuples(st.sampled_from(sorted(ACTS)), st.integers(1, 40)), min_size=1, max_size=8)
slow = settings(deadline=None, max_examples=12, derandomize=True, suppress_health_check=list(HealthCheck))


def begun(replicas: int, seed: int = 1) -> Scenario:
    scenario = Scenario(seed)
    scenario.given.drafters(
        good=0.9, fair=0.8, weak=0.4, dead=0.0, refused=Model(refusal="TensorsNotConsumed")
    ).server("good", floor="2.2", replicas=replicas).traffic(1)
    scenario.when.time(50)
    return scenario


LEAVES_SECONDS = 15.0
"""A rejected drafter is left within so long: another one is staged meanwhile."""


class Watch:
    """Looks at every step of a story."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.on_rejected: dict[str, float] = defaultdict(float)
        self.told = len(scenario.cluster.told)
        self.swapped: dict[tuple[str, str], float] = {}
        self.plans = len(scenario.cluster.plans)

    def act(self, name: str) -> None:
        """Somebody acts: what is done from now on may be done for that."""
        ACTS[name](self.scenario)
        self.swapped.clear()

    def time(self, seconds: float) -> None:
        """Let time pass, and look."""
        until = self.scenario.cluster.now + seconds
        while self.scenario.cluster.now < until:
            self.scenario.cluster.step()
            self._no_two_restarts()
            self._no_traffic_on_rejected()
            self._no_flapping()

    def _no_two_restarts(self) -> None:
        cluster = self.scenario.cluster
        for made in cluster.plans[self.plans :]:
            gone = [item for item in made.deletions if item["kind"] == "Pod" and "graceSeconds" not in item]
            assert len(gone) <= 1, gone
        self.plans = len(cluster.plans)

    def _no_traffic_on_rejected(self) -> None:
        cluster = self.scenario.cluster
        rejected = {record.name for record in cluster.revisions.values() if record.outcome == REJECTED}
        for pod in cluster.pods.values():
            status = pod.agent.status()
            bad = status.revision in rejected and status.drafting is Drafting.ON
            seen = cluster.operator and pod.silent_since is None and status.phase is Phase.SERVING
            self.on_rejected[pod.uid] = self.on_rejected[pod.uid] + 0.5 if bad and seen else 0.0
            assert self.on_rejected[pod.uid] <= LEAVES_SECONDS, status

    def _no_flapping(self) -> None:
        cluster = self.scenario.cluster
        fresh, self.told = cluster.told[self.told :], len(cluster.told)
        for uid, command in fresh:
            if isinstance(command, Swap):
                key = (uid, command.drafter.revision)
                assert cluster.now - self.swapped.get(key, 0.0) >= RETRY_SECONDS, command
                self.swapped[key] = cluster.now


def told(scenario: Scenario, story: list[tuple[str, int]]) -> None:
    for act, seconds in story:
        ACTS[act](scenario)
        scenario.when.time(seconds)


@slow
@given(story=stories, replicas=st.sampled_from([1, 2]))
def test_it_comes_to_rest_on_a_drafter_that_nobody_rejected(story, replicas):
    scenario = begun(replicas)
    told(scenario, story)
    scenario.when.operator_back().spec(rollout={"paused": False}).traffic(1).time(200)
    rejected = {r.name for r in scenario.cluster.revisions.values() if r.outcome == "Rejected"}
    for pod in scenario.cluster.pods.values():
        status = pod.agent.status()
        assert status.drafting.value == "Off" or status.revision not in rejected
        assert status.promoted == scenario.cluster.launch_plan.revision
    scenario.then.condition("Ready", "True")
    if "missing" not in scenario.cluster.server.spec.drafter.model:
        scenario.then.quiet(70)


@slow
@given(story=stories)
def test_never_are_two_engines_down_at_once_because_of_a_plan(story):
    scenario = begun(3)
    told(scenario, [item for item in story if item[0] != "engine restarts"])
    scenario.when.operator_back().time(60)
    assert scenario.cluster.most_down <= 1


@slow
@given(story=stories, replicas=st.sampled_from([1, 2, 3]), measured=st.booleans())
def test_no_plan_restarts_two_stays_on_what_was_rejected_or_flaps(story, replicas, measured):
    scenario = begun(replicas)
    scenario.when.spec(acceptance={"baseline": "Measure" if measured else "Off"}).time(
        200 if replicas > 1 else 10
    )
    watch = Watch(scenario)
    for act, seconds in story:
        watch.act(act)
        watch.time(seconds)
    watch.act("operator back")
    watch.act("heard")
    watch.time(120)


@slow
@given(detour=st.sampled_from(VERSIONS[1:]), seconds=st.integers(1, 90), seed=st.integers(1, 1000))
def test_there_and_back_is_as_if_nothing_had_been(detour, seconds, seed):
    scenario = begun(1, seed)
    straight = scenario.cluster.status
    scenario.when.drafter(detour).time(seconds).drafter("good").time(100)
    scenario.then.serves("good").pods_made(1)
    back = scenario.cluster.status
    assert [(c.type, c.status, c.reason) for c in back.conditions] == [
        (c.type, c.status, c.reason) for c in straight.conditions
    ]
    assert (back.rollout, back.active) == (straight.rollout, back.active)
    assert back.active.revision == straight.active.revision
