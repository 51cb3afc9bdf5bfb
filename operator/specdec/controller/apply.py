"""Carrying a plan out: objects first, then commands to agents, then deletions."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError
from pydantic_core import to_json

from specdec.controller.agents import AgentError, Agents
from specdec.controller.clock import Clock
from specdec.controller.kinds import CONFIG_MAP, CONTROLLER_REVISION, KINDS, POD, Kind
from specdec.controller.kube import ConflictError, Kube, KubeError
from specdec.controller.noop import unchanged
from specdec.controller.poller import Poller
from specdec.controller.store import Key, Store
from specdec.engine.protocol import Confirm, Envelope, Promote, Rollback, SetDrafting
from specdec.resources import launch_plan_of
from specdec.rollout.world import AgentCommand, Plan, World

log = logging.getLogger(__name__)

SAFE = (Rollback, SetDrafting, Confirm)
"""Commands that keep traffic safe: they go out even where an object could not be applied."""

CONFIRM_SHARE = 0.2
"""A candidate is confirmed five times within the time after which it would go back by itself."""

LOST = "the lease is not held: nothing more is done"
"""A process that was asleep in the middle of a pass wakes up as somebody who may not decide any more."""

CONTENDED_SECONDS = 600.0
"""A launch plan that somebody else signed for so soon after us has two operators; after that it is tried again."""

Manifest = dict[str, Any]

NOWHERE: Manifest = {"metadata": {"resourceVersion": str(2**63 - 1)}}
"""A version that no object has. The API server makes what is not there whatever version an apply names, and refuses to
change what has another one (k8s.io/apiserver, registry/generic/registry/store.go, Update): so it looks for us."""


@dataclass(frozen=True)
class Carried:
    """What became of a plan."""

    failed: list[str]
    """What could not be done, in sentences."""
    recorded: bool = True
    """Whether the records of all revisions were written: a person's request is answered by them alone."""


@dataclass(slots=True)
class Applier:
    """Carries plans out for one server."""

    key: Key
    kube: Kube
    store: Store
    agents: Agents
    poller: Poller
    epoch: Callable[[], int]
    may_decide: Callable[[], bool]
    clock: Clock = field(default_factory=Clock)
    _settled: int = field(default=0)
    """Hash of what the server should consist of and of the versions that are so: they are not compared again and again.
    (The manifests themselves would take more memory than all else that is kept of a server.)"""
    _assignment: int = field(default=0)
    """The highest that was ever sent."""
    _signed: float = field(default=float("-inf"))
    """When the launch plan was last written with our keys."""
    _confirmed: dict[tuple[str, str], float] = field(default_factory=dict)
    """When each pod's candidate was last confirmed."""

    async def carry_out(self, world: World, plan: Plan) -> Carried:
        """Do what the plan says, in its order, and return what failed."""
        uid = str(world.server.metadata["uid"])
        records = [item for item in plan.objects if item["kind"] == CONTROLLER_REVISION.kind]
        others = [item for item in plan.objects if item["kind"] != CONTROLLER_REVISION.kind]
        unrecorded, _ = await self._objects(records, uid)
        # What follows from a record waits for it: the next pass would decide without it, and undo what was done.
        failed = unrecorded or await self._settle(others, uid)
        safe = [item for item in plan.commands if not failed or isinstance(item.command, SAFE)]
        commands = [item for item in safe if not self._confirmed_lately(item)]
        failed += await self._commands(world, plan, commands)
        if not failed:
            failed += await self._deletions(plan.deletions)
        return Carried(failed, recorded=not unrecorded)

    def _confirmed_lately(self, item: AgentCommand) -> bool:
        """Leave out a Confirm whose like was just sent: its effect on the status would only cause the next one."""
        command = item.command
        if not isinstance(command, Confirm):
            return False
        last = self._confirmed.get((item.pod, command.revision), float("-inf"))
        return self.clock.monotonic() - last < command.within_seconds * CONFIRM_SHARE

    async def _settle(self, manifests: list[Manifest], uid: str) -> list[str]:
        """Apply what a server consists of, unless all of it stands as the last pass left it; returns what failed."""
        wanted = to_json(manifests)
        if self._settled == hash((wanted, *map(self._version, manifests))):
            return []
        failed, versions = await self._objects(manifests, uid)
        if not failed:
            self._settled = hash((wanted, *versions))
        return failed

    def _version(self, manifest: Manifest) -> str:
        metadata = manifest["metadata"]
        return self.store.version_of(KINDS[manifest["kind"]], metadata["namespace"], metadata["name"])

    async def _objects(self, manifests: list[Manifest], uid: str) -> tuple[list[str], list[str]]:
        """Apply one after the other; returns what failed, and the versions that are as they should be."""
        failed, versions = list[str](), list[str]()
        for manifest in manifests:
            try:
                versions.append(await self._apply(manifest, uid))
            except ConflictError:
                raise  # somebody changed it since: what this pass decided may not hold
            except KubeError as error:
                failed.append(str(error))
        return failed, versions

    async def _apply(self, manifest: Manifest, uid: str) -> str:
        """Apply one object, unless it is so already; returns the version that is so."""
        kind, metadata = KINDS[manifest["kind"]], manifest["metadata"]
        live = self.store.get(kind, metadata["namespace"], metadata["name"])
        if live is None:
            made = await self._made(kind, manifest)
            if made is not None:
                return _version_of(made)
            # Not in the watch's memory, but there: without our label, or younger than what the watch has told.
            live = await self.kube.get(kind, metadata["namespace"], metadata["name"])
        if live is None:
            raise ConflictError(f"{kind.kind} {metadata['name']} came and went")
        if not _owned_by(live, uid):
            raise KubeError(
                f"{kind.kind} {metadata['name']} exists and belongs to something else:"
                " delete it, or give the server another name"
            )
        if unchanged(live, manifest):
            return _version_of(live)
        if not self.may_decide():
            raise KubeError(LOST)
        if kind is CONFIG_MAP:
            self._sign(live, manifest)
        changed = await self.kube.apply(_upon(live, manifest))
        self.store.answered(changed)
        return _version_of(changed)

    async def _made(self, kind: Kind, manifest: Manifest) -> Manifest | None:
        """Make an object where there is none; None where there is one, which stays as it is."""
        if not self.may_decide():
            raise KubeError(LOST)
        if kind is CONFIG_MAP:
            self._signed = self.clock.monotonic()
        try:
            if kind is CONTROLLER_REVISION:
                made = await self.kube.create(kind, manifest["metadata"]["namespace"], manifest)
            else:
                made = await self.kube.apply(_upon(NOWHERE, manifest))
        except ConflictError:
            return None
        self.store.answered(made)
        return made

    def _sign(self, live: Manifest, manifest: Manifest) -> None:
        """Put our keys into the launch plan, unless another operator replaces them by its own again and again."""
        now = self.clock.monotonic()
        if _others_keys(live, manifest) and now - self._signed < CONTENDED_SECONDS:
            raise KubeError(
                f"another operator writes ConfigMap {manifest['metadata']['name']} with a key of its own: give each"
                " installation namespaces of its own, or uninstall one"
            )
        self._signed = now

    async def _commands(self, world: World, plan: Plan, commands: list[AgentCommand]) -> list[str]:
        if not commands:
            return []
        self._assignment = max(self._assignment, _highest_assignment(world, plan))
        by_pod: dict[str, list[Envelope]] = {}
        for item in commands:
            self._assignment += 1
            envelope = Envelope(assignment=self._assignment, epoch=self.epoch(), command=item.command)
            by_pod.setdefault(item.pod, []).append(envelope)
        results = await asyncio.gather(*(self._send(pod, queue) for pod, queue in by_pod.items()))
        return [sentence for sentences in results for sentence in sentences]

    async def _send(self, name: str, queue: list[Envelope]) -> list[str]:
        """Send one pod its commands in order; the first that fails ends the queue."""
        pod = self.store.get(POD, self.key[0], name)
        address = pod.get("status", {}).get("podIP") if pod else None
        if pod is None or not address:
            return [f"pod {name} has no address: {queue[0].command.verb} not sent"]
        uid = pod["metadata"]["uid"]
        for envelope in queue:
            verb = envelope.command.verb
            if not self.may_decide():
                return [LOST]
            try:
                answer = await self.agents.command(address, uid, envelope)
            except AgentError as error:
                return [f"{verb} to pod {name}: {error}"]
            if not answer.accepted:
                return [f"pod {name} refused {verb}: {answer.reason}: {answer.message}"]
            self._took(name, envelope)
        if not all(isinstance(envelope.command, Confirm) for envelope in queue):
            await self.poller.ask_now(uid)
        return []

    def _took(self, pod: str, envelope: Envelope) -> None:
        command = envelope.command
        if isinstance(command, Confirm):
            self._confirmed[pod, command.revision] = self.clock.monotonic()
            return
        log.info("%s: pod %s took %s", "/".join(self.key), pod, _words(envelope))

    async def _deletions(self, deletions: Iterable[dict[str, str]]) -> list[str]:
        failed: list[str] = []
        for item in deletions:
            if not self.may_decide():
                return [*failed, LOST]
            grace = int(item["graceSeconds"]) if "graceSeconds" in item else None
            try:
                await self.kube.delete(KINDS[item["kind"]], self.key[0], item["name"], item["uid"], grace)
            except KubeError as error:
                failed.append(str(error))
        return failed


def _upon(live: Manifest, manifest: Manifest) -> Manifest:
    """Make an apply hold only upon the version that was seen: one that comes late, from a process asleep, is refused."""
    version = {"resourceVersion": _version_of(live)}
    return {**manifest, "metadata": {**manifest["metadata"], **version}}


def _others_keys(live: Manifest, manifest: Manifest) -> bool:
    """Whether the plan that stands trusts keys, and none of ours."""
    try:
        theirs = launch_plan_of(live).public_keys
    except (ValidationError, KeyError):
        return False  # broken by someone's hand
    return bool(theirs) and not set(theirs) & set(launch_plan_of(manifest).public_keys)


def _version_of(live: Manifest) -> str:
    return str(live["metadata"]["resourceVersion"])


def _owned_by(live: Manifest, uid: str) -> bool:
    return any(owner["uid"] == uid for owner in live["metadata"].get("ownerReferences", ()))


def _highest_assignment(world: World, plan: Plan) -> int:
    """Highest assignment that any agent may have seen, the plan's own ConfigMap included."""
    written = [launch_plan_of(item).assignment for item in plan.objects if item["kind"] == CONFIG_MAP.kind]
    said = [pod.status.assignment for pod in world.pods if pod.status]
    standing = [world.launch_plan.assignment] if world.launch_plan else []
    return max([0, *written, *said, *standing])


def _words(envelope: Envelope) -> str:
    command = envelope.command
    match command:
        case Rollback() | Promote() | Confirm():
            return f"{command.verb} {command.revision} (assignment {envelope.assignment})"
        case _:
            return f"{command.verb} (assignment {envelope.assignment})"
