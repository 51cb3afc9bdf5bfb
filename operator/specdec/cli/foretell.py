"""What the planner would do with a changed server, put into sentences. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from specdec.acceptance.judge import Floor
from specdec.api.conditions import ConditionType, Reason, find
from specdec.controller.kinds import JOB, KINDS
from specdec.controller.noop import unchanged
from specdec.controller.store import Store
from specdec.engine.protocol import Swap
from specdec.rollout.aim import last_good
from specdec.rollout.inputs import findings
from specdec.rollout.plan import wished
from specdec.rollout.quarantine import rejected
from specdec.rollout.revisions import drafter_ref, restart_hash, version
from specdec.rollout.world import AgentCommand, Plan, RevisionRecord, World

HELD = frozenset({Reason.PINNED, Reason.PAUSED, Reason.OBSERVING, Reason.DRAFTING_OFF})
REFUSED = frozenset({Reason.DRAFTER_REJECTED, Reason.DRAFTER_QUARANTINED})


class Course(StrEnum):
    """What applying a file comes to."""

    BLOCKED = "Blocked"
    """Bad input: nothing is created or changed until it is mended."""
    REFUSED = "Refused"
    """The drafter was rejected before and gets no other trial."""
    HELD = "Held"
    """A person's lasting decision keeps the revision from being rolled out."""
    FIRST_START = "FirstStart"
    """Engines are created."""
    RESTART = "Restart"
    """Engines restart one at a time, drained."""
    IN_PLACE = "InPlace"
    """The drafter is swapped on running engines."""
    SETTINGS = "Settings"
    """The revision stays; how it is judged, rolled out or reached changes."""
    NOTHING = "Nothing"
    """All is as it would be."""


@dataclass(frozen=True)
class Foretold:
    """The answer of `plan`."""

    server: str
    course: Course
    sentence: str
    revision: str
    version: str
    changes: tuple[str, ...] = ()
    """Fields of the spec that differ."""
    further: tuple[str, ...] = ()
    """What follows, in sentences."""
    first: tuple[str, ...] = ()
    """What the first pass does."""
    unknown: tuple[str, ...] = ()
    """What could not be looked at, or was assumed."""

    @property
    def refused(self) -> bool:
        """Whether the file would not come to serve."""
        return self.course in {Course.BLOCKED, Course.REFUSED}


@dataclass(frozen=True)
class Change:
    """A server as it stands and as it would be, and what the planner says to that."""

    before: dict[str, Any] | None
    """The spec as it stands; None for a new server."""
    after: dict[str, Any]
    world: World
    """With the server as it would be."""
    plan: Plan
    store: Store
    now: float
    unknown: tuple[str, ...] = field(default=())

    @property
    def desired(self) -> RevisionRecord:
        """The revision that the changed spec asks for."""
        return wished(self.world, blocked=False)[1]

    @property
    def launched(self) -> RevisionRecord | None:
        """The revision that engines start with now."""
        name = self.world.launch_plan.revision if self.world.launch_plan else ""
        return next((record for record in self.world.revisions if record.name == name), None)


def foretold(change: Change) -> Foretold:
    """Say what would happen."""
    course, sentence = _course(change)
    server, desired = change.world.server, change.desired
    return Foretold(
        server=f"{server.namespace}/{server.name}",
        course=course,
        sentence=sentence,
        revision=desired.name,
        version=version(desired),
        changes=tuple(differences(change.before or {}, change.after)),
        further=tuple(_further(change, course)),
        first=tuple(_first(change)),
        unknown=change.unknown,
    )


def _course(change: Change) -> tuple[Course, str]:
    return _obstacle(change) or _way(change)


def _obstacle(change: Change) -> tuple[Course, str] | None:
    """Find what keeps the revision from being rolled out."""
    name = _named(change)
    blocking = next((finding for finding in findings(change.world, change.now) if finding.blocks), None)
    if blocking is not None:
        return Course.BLOCKED, f"nothing would be created or changed: {blocking.reason}: {blocking.message}"
    current = find(change.plan.status.conditions, ConditionType.DRAFTER_CURRENT)
    if current is not None and current.reason in REFUSED:
        return Course.REFUSED, f"{name} would be refused without another trial: {current.message}"
    if change.launched and current is not None and current.reason in HELD:
        return Course.HELD, f"{name} would not be rolled out: {current.message}"
    return None


def _way(change: Change) -> tuple[Course, str]:
    """Say how the revision comes to serve."""
    desired, launched, name = change.desired, change.launched, _named(change)
    if launched is None:
        return Course.FIRST_START, f"engines would be created and start with {name}"
    if change.before is not None and not tuple(differences(change.before, change.after)):
        return Course.NOTHING, f"nothing would change; {_standing(change)}"
    if desired.name == max(change.world.revisions, key=lambda record: record.number).name:
        return Course.SETTINGS, f"{name} stays what is asked for; the changed settings hold at once"
    if restart_hash(desired.data) != restart_hash(launched.data):
        words = f"engines would restart one at a time, drained, with {name}: {_restarts(change)}"
        return Course.RESTART, words
    if desired.name == launched.name:
        return Course.IN_PLACE, f"{name} would serve again, and what is on trial would be taken back"
    return Course.IN_PLACE, f"{name} would be swapped in on running engines, and judged"


def _standing(change: Change) -> str:
    current = find(change.plan.status.conditions, ConditionType.DRAFTER_CURRENT)
    return current.message if current else "no pass has been made yet"


def _named(change: Change) -> str:
    return version(change.desired) or "the target without a drafter"


def _restarts(change: Change) -> str:
    """Name what can't be changed in place."""
    launched = change.launched
    old = {key: value for key, value in (launched.data if launched else {}).items() if key != "drafter"}
    new = {key: value for key, value in change.desired.data.items() if key != "drafter"}
    named = "; ".join(differences(old, new))
    return named or "engines with and without a drafter start differently"


def _further(change: Change, course: Course) -> Iterator[str]:
    """Say what follows the first step."""
    if course not in {Course.FIRST_START, Course.RESTART, Course.IN_PLACE}:
        return
    spec, desired, launched = change.world.server.spec, change.desired, change.launched
    if any(item["kind"] == JOB.kind for item in change.plan.objects):
        yield f"the preflight judges {version(desired)} first, in a Job: engines stay as they are if it blocks"
    if drafter_ref(desired) is None or (launched is not None and launched.name == desired.name):
        return  # nothing is on trial
    swapped = [order.pod for order in change.plan.commands if isinstance(order.command, Swap)]
    if course is Course.IN_PLACE and swapped and len(change.world.pods) > 1:
        yield f"{', '.join(swapped)} first; the other engines once it is found healthy there"
    steps = int(desired.data.get("numSteps", 3))
    floor = Floor.of(spec.acceptance, steps)
    if floor.length is None:
        yield "no floor is set (acceptance.minAcceptLength): only a drafter of which nothing is accepted is taken back"
    else:
        yield f"judged by accept length >= {floor.length:.2f} of at most {steps + 1}, over at least {floor.min_requests} requests"
    if course is Course.IN_PLACE:
        yield f"promoted after {spec.rollout.min_soak_seconds} s at the earliest, and not without users' requests"
    good = last_good(tuple(record for record in change.world.revisions if record.name != desired.name))
    kept = good or (launched if not rejected(launched) else None)
    back = version(kept) if kept else ""
    yield f"if it is found bad, {f'{back} serves again' if back else 'drafting goes off'}"


def _first(change: Change) -> Iterator[str]:
    """List what the first pass does, in its order."""
    for manifest in change.plan.objects:
        metadata = manifest["metadata"]
        live = change.store.get(KINDS[manifest["kind"]], metadata["namespace"], metadata["name"])
        if not unchanged(live, manifest):
            yield f"{'change' if live else 'create'} {manifest['kind']} {metadata['name']}"
    yield from (f"tell {order.pod}: {told(order)}" for order in change.plan.commands)
    yield from (f"delete {item['kind']} {item['name']}" for item in change.plan.deletions)


def told(order: AgentCommand) -> str:
    """Word a command."""
    command = order.command
    if isinstance(command, Swap):
        return f"Swap {command.drafter.version}"
    about = getattr(command, "drafting", "") or getattr(command, "revision", "")
    return f"{command.verb} {about}".strip()


def differences(old: Any, new: Any, path: str = "") -> Iterator[str]:
    """Compare two trees, one line for each leaf that differs."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted({*old, *new}):
            yield from differences(old.get(key), new.get(key), f"{path}.{key}" if path else key)
    elif isinstance(new, dict) and old is None:
        yield from differences({}, new, path)
    elif isinstance(old, dict) and new is None:
        yield from differences(old, {}, path)
    elif old != new:
        yield f"{path}: {_shown(old)} -> {_shown(new)}"


def _shown(value: Any) -> str:
    return "(not set)" if value is None else str(value)
