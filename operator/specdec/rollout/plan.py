"""The plan: a pure function from what is observed to what should be done now.

Level-based: everything is derived from the world, and a plan that was carried out leads to a plan that asks
for nothing more. `.spec` is never written. Order of the work that others do with it: objects, commands,
deletions, status, events; in every plan the commands that make traffic safe stand before all others.
"""

from __future__ import annotations

from dataclasses import replace

from specdec import resources
from specdec.engine.protocol import LaunchPlan
from specdec.rollout import events, history, pace, requests, restarts, revisions, status, swapping
from specdec.rollout.aim import Aim, choose
from specdec.rollout.inputs import Finding, findings
from specdec.rollout.launch import held, next_plan, order, unjudged
from specdec.rollout.now import Now
from specdec.rollout.outcomes import settled
from specdec.rollout.passing import Pass
from specdec.rollout.scene import Scene, living_candidate
from specdec.rollout.world import Evidence, Plan, RevisionRecord, World

TRIAL_POLL_SECONDS = 0.5
REST_POLL_SECONDS = 5.0
TRIAL_PASS_SECONDS = 1.0
REST_PASS_SECONDS = 30.0
"""With something found amiss: claims are not watched."""
LONGEST_REST_SECONDS = 300.0
"""With nothing amiss and no deadline ahead: a look that should find nothing."""


def plan(world: World, evidence: Evidence, now: float) -> Plan:
    """Decide what should be done now, and when to look again though nothing is heard."""
    now = Now.at(now)
    found = findings(world, now)
    made = _planned(world, evidence, now, found)
    ahead = REST_PASS_SECONDS if found else max(REST_PASS_SECONDS, now.holds)
    return replace(made, requeue_after=min(made.requeue_after, ahead))


def _planned(world: World, evidence: Evidence, now: float, found: tuple[Finding, ...]) -> Plan:
    blocked = any(finding.blocks for finding in found)
    records, desired = wished(world, blocked=blocked)
    records, answer = requests.handled(records, requests.pending(world), world, desired.name, now)
    desired = next(record for record in records if record.name == desired.name)
    scene = _settled(Scene(world, evidence, now, records, desired))
    aim = choose(scene)
    if blocked and world.launch_plan is None:
        return _worded(Pass(scene, aim, None, found, answer=answer))
    if held(scene, aim):
        waiting = _worded(Pass(scene, aim, None, found, answer=answer))
        return replace(waiting, objects=(*_changed(scene), *_preflight(scene, aim)))
    return _decided(scene, aim, found, answer, blocked=blocked)


def wished(world: World, *, blocked: bool) -> tuple[tuple[RevisionRecord, ...], RevisionRecord]:
    """Find or make the record of what the spec asks for; with bad input, of what engines started with."""
    content = revisions.content(world.server, world.settings)
    name = revisions.name(world.server, content)
    standing = {record.name: record for record in world.revisions}
    if blocked and world.launch_plan is not None and world.launch_plan.revision in standing:
        return world.revisions, standing[world.launch_plan.revision]
    newest = max((record.number for record in world.revisions), default=0)
    desired = standing.get(name) or RevisionRecord(name=name, number=newest + 1, data=content)
    if desired.number < newest:
        desired = replace(desired, number=newest + 1)  # the user came back to it
    return tuple((standing | {name: desired}).values()), desired


def _settled(scene: Scene) -> Scene:
    records = settled(scene)
    desired = next(record for record in records if record.name == scene.desired.name)
    return replace(scene, records=records, desired=desired)


def _decided(scene: Scene, aim: Aim, found: tuple[Finding, ...], answer: str, *, blocked: bool) -> Plan:
    standing = scene.plan
    launch = standing if blocked and standing is not None else next_plan(scene, aim)
    record = scene.record(launch.revision) or scene.desired
    deletions = () if blocked else restarts.deletions(scene, launch, record)
    done = Pass(
        scene=scene,
        aim=aim,
        plan=launch,
        findings=found,
        commands=swapping.commands(scene, aim, launch),
        restarting=bool(deletions) or any(restarts.outdated(pod, record) for pod in scene.world.pods),
        answer=answer,
    )
    planned = _worded(done)
    return replace(
        planned,
        objects=(
            *_changed(scene),
            *(() if blocked else (*_preflight(scene, aim), *_manifests(scene, launch, record))),
        ),
        deletions=(*deletions, *(() if blocked else history.forgotten(scene, record))),
    )


def _manifests(scene: Scene, launch: LaunchPlan, record: RevisionRecord) -> tuple[dict[str, object], ...]:
    partition = restarts.partition(scene, record)
    return resources.manifests(scene.world, launch, record, partition=partition)


def _preflight(scene: Scene, aim: Aim) -> tuple[dict[str, object], ...]:
    """The Job that judges what engines would be started with."""
    record = unjudged(scene, aim)
    if record is None:
        return ()
    image = str(record.data.get("image") or scene.world.settings.default_image)
    return (resources.preflight_job(scene.world.server, record, order(scene, record), image),)


def _changed(scene: Scene) -> tuple[dict[str, object], ...]:
    """Records that this pass made or changed."""
    return tuple(
        resources.controller_revision(scene.world.server, record)
        for record in scene.records
        if record not in scene.world.revisions
    )


def _worded(done: Pass) -> Plan:
    """Put a pass into words: status, events, and when to look again."""
    after = status.status(done)
    busy = _busy(done)
    look = pace.next_look(done.scene, done.aim)
    poll = TRIAL_POLL_SECONDS if busy else REST_POLL_SECONDS
    again = TRIAL_PASS_SECONDS if busy else LONGEST_REST_SECONDS
    return Plan(
        objects=(),
        commands=done.commands,
        status=after,
        events=events.events(done, after),
        poll_seconds=poll if look is None else min(poll, look),
        requeue_after=again if look is None else min(again, look),
    )


def _busy(done: Pass) -> bool:
    """Whether something is under way that a verdict or an answer ends soon."""
    on_trial = any(living_candidate(status) for _, status in done.scene.engines)
    untried = done.launched is not None and not done.launched.outcome and bool(done.scene.engines)
    suspected = any(verdict.needs_probe for verdict in done.scene.evidence.values())
    judging = unjudged(done.scene, done.aim) is not None
    return on_trial or untried or suspected or judging or bool(done.commands) or done.restarting
