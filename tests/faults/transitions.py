"""Random walks through what a user may apply: valid specs by the CRD's schema, each brought to rest and looked at.

After each step the server is where it should be or says in a condition why not; every pod template that was made
keeps the restricted standard; and back on an earlier spec everything is as it was there.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import functools
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError
from tests.faults import clockwork
from tests.faults.essence import Essence, differences, essence
from tests.faults.points import LONGEST_SECONDS, REST_SECONDS, settled
from tests.faults.stories import empty, spec
from tests.faults.world import EPOCH, Manifest, World
from tests.support.podsecurity import violations

from specdec.api.crd import openapi
from specdec.api.v1alpha1 import SpecDecodeServerSpec
from specdec.controller.kinds import CONTROLLER_REVISION

Path = tuple[str, ...]
Draw = Callable[[random.Random], Any]

GOOD = ("v1", "v2")
"""Drafters that no rule of ours takes away."""


def _one_of(*values: Any) -> Draw:
    return lambda rng: rng.choice(values)


DRAWN: dict[Path, Draw] = {
    ("target", "model"): _one_of("pvc://models/target", "pvc://models/other"),
    ("target", "servedName"): _one_of(None, "kimi", "moonshotai/Kimi-K2.5"),
    ("drafter", "model"): _one_of(
        *(
            f"pvc://models/drafters/{name}"
            for name in ("v1", "v2", "v1", "v2", "dead", "weak", "refused", "gone")
        )
    ),
    ("drafter", "version"): _one_of(None, None, "a", "b"),
    ("replicas",): _one_of(0, 1, 1, 2, 3),
    ("acceptance", "minAcceptLength"): _one_of(None, "1.9", "2.2", "1"),
    ("acceptance", "minAcceptRate"): _one_of(None, "0.3"),
    ("acceptance", "minRequests"): _one_of(None, 1, 4, 8),
    ("acceptance", "maxRegression"): _one_of(None, "0.5", "1"),
    # Measuring switches drafting off and on for ever: such a server is never at rest.
    ("acceptance", "baseline"): _one_of(None, "Off"),
    ("rollout", "minSoakSeconds"): _one_of(None, 0, 5),
    ("rollout", "confirmWithinSeconds"): _one_of(None, 20, 60),
    ("rollout", "progressDeadlineSeconds"): _one_of(None, 30, 120),
    ("rollout", "fallbackRestartSeconds"): _one_of(None, 0, 5),
    ("engine", "image"): _one_of(
        None, "registry.example/specdec/engine:1", "registry.example/specdec/engine:2"
    ),
    ("engine", "reasoningParser"): _one_of(None, "kimi_k2"),
    ("engine", "toolCallParser"): _one_of(None, "kimi_k2"),
    ("preflight", "skipChecks"): _one_of(None, ["GraphsSwitchedOff"], ["TensorsDropped", "ParametersNotFed"]),
    ("engine", "cacheClaim"): _one_of(None, "models", "cache"),
    ("engine", "volumes"): _one_of(None, ["models"]),
    ("engine", "imagePullSecrets"): _one_of(None, ["pull"], ["pull", "other"]),
    ("engine", "resources", "requests"): _one_of(None, {"cpu": "1"}, {"cpu": "500m", "memory": "2Gi"}),
    ("engine", "resources", "limits"): _one_of(None, {"nvidia.com/gpu": "8"}),
    ("engine", "sharedMemory"): _one_of(None, "2Gi", "0.5Gi"),
    ("engine", "memFractionStatic"): _one_of(None, "0.85"),
    ("engine", "scheduling", "nodeSelector"): _one_of(None, {"gpu": "h200"}),
    ("engine", "scheduling", "tolerations"): _one_of(None, [{"key": "nvidia.com/gpu", "operator": "Exists"}]),
    ("engine", "scheduling", "spreadOver"): _one_of(None, "kubernetes.io/hostname"),
    ("engine", "scheduling", "priorityClassName"): _one_of(None, "serving"),
    ("engine", "scheduling", "runtimeClassName"): _one_of(None, "nvidia"),
    ("drafter", "layers"): _one_of(
        None, {"convention": "Output"}, {"ids": [2, 30, 58], "convention": "Boundary"}
    ),
    ("engine", "warmupPrompts"): _one_of(None, "prompts"),
    ("engine", "podLabels"): _one_of(None, {"team": "llm"}, {"app.kubernetes.io/name": "mine"}),
}
"""What is drawn where the schema alone would give nonsense, or what lasts for hours."""


def _leaves(node: dict[str, Any], path: Path = ()) -> Iterator[tuple[Path, dict[str, Any]]]:
    for name, below in node.get("properties", {}).items():
        if "properties" in below and (*path, name) not in DRAWN:
            yield from _leaves(below, (*path, name))
        else:
            yield (*path, name), below


def _by_schema(schema: dict[str, Any]) -> Draw | None:
    if "enum" in schema:
        return _one_of(*schema["enum"])
    match schema.get("type"):
        case "boolean":
            return _one_of(True, False)
        case "integer":
            low, high = schema["minimum"], schema["maximum"]
            return lambda rng: rng.choice((None, low, rng.randint(low, high), high))
    return None


@functools.cache
def fields() -> dict[Path, Draw]:
    """Every field of the spec, and how a value of it is drawn."""
    leaves = dict(_leaves(openapi()["properties"]["spec"]))
    drawn = {path: DRAWN.get(path) or _by_schema(schema) for path, schema in leaves.items()}
    return {path: draw for path, draw in drawn.items() if draw is not None}


def valid(candidate: Manifest) -> bool:
    """Whether the API server would take a spec: the schema, and the rules on several fields."""
    try:
        read = SpecDecodeServerSpec.model_validate(candidate)
    except ValidationError:
        return False
    floor = float(read.acceptance.min_accept_length or 1)
    return read.drafter is not None and 1 <= floor <= read.num_steps + 1


def changed(before: Manifest, rng: random.Random) -> Manifest:
    """Change one to three fields of a spec to another valid one."""
    while True:
        after = copy.deepcopy(before)
        for path in rng.sample(sorted(fields()), rng.randint(1, 3)):
            _put(after, path, fields()[path](rng))
        if after != before and valid(after):
            return after


def _put(into: Manifest, path: Path, value: Any) -> None:
    for name in path[:-1]:
        into = into.setdefault(name, {})
    if value is None:
        into.pop(path[-1], None)
    else:
        into[path[-1]] = value


UNDER_WAY = "still reconciling at rest"
ENDLESS = "a rollout did not come to its end"
"""The walks' engines all take a drafter, or refuse it, and have traffic: such a rollout is our fault."""
GOES_ON = (UNDER_WAY, ENDLESS)
"""What a short progress deadline calls stalled may still be judged."""
TRIAL_CHANGES = 8
"""Two trials of a folder that is missing, with their statuses, in the time that means rest."""


@dataclass
class Walk:
    """One random walk."""

    seed: int
    steps: int
    wrong: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        self.world = empty(self.seed)
        self.world.network.kill = self.world.crash

    async def go(self) -> None:
        """Take all steps."""
        going = asyncio.create_task(self.world.go_on())
        try:
            await self._steps()
            if going.done():
                going.result()
        finally:
            going.cancel()
            self.world.crash()

    async def _steps(self) -> None:
        history: list[tuple[Manifest, Essence]] = []
        now = spec()
        await asyncio.sleep(3)
        for step in range(self.steps):
            back = step >= 2 and self.rng.random() < 0.3
            wanted = history[-2][0] if back else changed(now, self.rng)
            if wanted == now:
                continue
            now = wanted
            before = serving(essence(self.world))
            self.world.apply(now)
            self.world.network.last_change = asyncio.get_running_loop().time()
            if not await self._rested(now, before):
                self.wrong.append(f"step {step}: not at rest: {self.world.network.changes[-4:]} with {now}")
                return
            found = essence(self.world)
            self._look(step, now, found, before)
            if back and comparable(now, history[-2][1], self.world):
                changes = changed_by_the_way(history[-2][1], found)
                self.wrong += [f"step {step}: back on {now}: {line}" for line in changes]
            history.append((now, found))

    async def _rested(self, now: Manifest, before: int) -> bool:
        """Wait until nothing is under way: a candidate may be judged for minutes without a word."""
        network = self.world.network
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LONGEST_SECONDS):
                while await settled(self.world) and unexplained(now, essence(self.world), before) in GOES_ON:
                    network.changed.clear()
                    await network.changed.wait()
        if asyncio.get_running_loop().time() - network.last_change >= REST_SECONDS:
            return True
        told = len(network.changes)
        await asyncio.sleep(REST_SECONDS)
        return missing(now) and len(network.changes) - told <= TRIAL_CHANGES

    def _look(self, step: int, now: Manifest, found: Essence, before: int) -> None:
        stuck = unexplained(now, found, before)
        if stuck:
            self.wrong.append(f"step {step}: {stuck} with {now}: {found['status']}")
        for template in self.world.templates:
            broken = violations(template["spec"])
            if broken:
                self.wrong.append(f"step {step}: a pod breaks the restricted standard: {broken}")
        self.world.templates.clear()


def comparable(now: Manifest, before: Essence, world: World) -> bool:
    """Whether coming back must find everything as it was.

    Not after a verdict; not with drafting off (engines that were restarted without a drafter stay so) or no engine
    (what served last is remembered); and not where
    what stands is left as it is: with a rollout that is paused, one that is only observed, or bad input.
    """
    stalled = any(kind == "Stalled" and state == "True" for kind, state, _ in before["status"]["conditions"])
    left = now.get("mode") == "Observe" or now.get("rollout", {}).get("paused")
    if now.get("drafting") == "Off" or now.get("replicas") == 0 or left or stalled:
        return False
    records = [item for item in world.server.of(CONTROLLER_REVISION) if "Rejected" in str(item["metadata"])]
    name = now["drafter"]["model"].rpartition("/")[2]
    model = f"drafters/{name}"
    return name in GOOD and not any(model in str(item["data"]) for item in records)


LASTING = ("StatefulSet", "Service", "PodDisruptionBudget")


def changed_by_the_way(before: Essence, after: Essence) -> list[str]:
    """Where coming back has not found everything as it was.

    Only a preflight may say more, if it has ended meanwhile, or less: a result holds for the settings that it was
    found under, and what serves already is judged anew when engines next start with it.
    """
    states = [lasting(before), lasting(after)]
    known = [_preflight(state)[1] for state in states]
    if "Unknown" in known:
        for state in states:
            state["status"]["conditions"].remove(_preflight(state))
    return differences(*states)


def _preflight(state: Essence) -> list[str]:
    (found,) = (item for item in state["status"]["conditions"] if item[0] == "PreflightPassed")
    return list(found)


def lasting(state: Essence) -> Essence:
    """What must be the same each time that a spec is applied."""
    kept = {key: value for key, value in state.items() if key.startswith(LASTING)}
    status = {name: state["status"][name] for name in ("active", "phase", "readyReplicas")}
    status["conditions"] = list(state["status"]["conditions"])
    return {**kept, "launch plan": state.get("launch plan"), "status": status}


def missing(now: Manifest) -> bool:
    """Whether the drafter's folder is not there: what can't be had for now is tried again every half minute."""
    return str(now["drafter"]["model"]).endswith("/gone")


BAD_INPUT = ("ClaimNotFound", "ClaimAccessMode")
"""Reasons of Stalled with which nothing of a spec is applied: what stands is left as it is."""


def serving(state: Essence) -> int:
    """Count the engines that serve."""
    return sum(value[1] == "Serving" for key, value in state.items() if key.startswith("pod "))


def unexplained(now: Manifest, found: Essence, before: int) -> str:
    """Say what is stuck without a word; "" where all is as wished, or a condition tells why not.

    `before` is how many engines served before the spec was applied.
    """
    status = found["status"]
    conditions = {kind: (state, reason) for kind, state, reason in status["conditions"]}
    if status["observed"]:
        return "the newest spec was not looked at"
    stalled, why = conditions.get("Stalled", ("", ""))
    if why == "ProgressDeadlineExceeded":
        return ENDLESS
    if stalled != "True" and conditions.get("Reconciling", ("",))[0] == "True":
        return UNDER_WAY
    if short := short_of(now, found, before, why):
        return short
    current = conditions.get("DrafterCurrent", ("", ""))
    if stalled != "True" and current[0] != "True" and current[1] in ("", "Active"):
        return "the drafter is not the wished one, and no reason is given"
    return ""


def short_of(now: Manifest, found: Essence, before: int, why: str) -> str:
    """Say which engines are missing, or are there and do not serve."""
    wanted = now.get("replicas", 1)
    if why in BAD_INPUT:
        wanted = before
    if why == "DrafterNotFound" and not found["status"]["active"]:
        wanted = 0  # there is no other drafter to start with
    pods = [value[1] for key, value in found.items() if key.startswith("pod ")]
    return "" if pods == ["Serving"] * wanted else f"{pods} where {wanted} should serve"


def walked(seed: int, steps: int) -> list[str]:
    """Take a random walk; returns what was wrong."""
    random.seed(seed)
    walk = Walk(seed, steps)
    clockwork.run(walk.go(), EPOCH)
    return walk.wrong
