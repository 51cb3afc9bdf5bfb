"""Worlds for tables: one pass of the planner over a server that stands just so."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.support.merge import merged

from specdec.acceptance.verdict import Judgement, Verdict
from specdec.api.v1alpha1 import RevisionStatus, SpecDecodeServer, SpecDecodeServerStatus
from specdec.engine.protocol import Candidate, CandidateState, Drafting, LaunchPlan, Phase, Status
from specdec.rollout import revisions
from specdec.rollout.clock import exact
from specdec.rollout.plan import plan
from specdec.rollout.world import ClaimView, Plan, PodView, RevisionRecord, Settings, World

NOW = 1_800_000_000.0
SETTINGS = Settings("registry.example/specdec/engine:1", ("registry.example/specdec/",))
ENGINE, TARGET = "sglang-0.5.23-cpu", "sha256:target"


def server(version: str | None = "v1", **spec: Any) -> SpecDecodeServer:
    """A server that asks for a drafter version; without a preflight, whose tables say `preflight={"mode": ...}`."""
    wanted: dict[str, Any] = {"target": {"model": "pvc://models/target"}, "preflight": {"mode": "Off"}}
    if version:
        wanted["drafter"] = {"model": f"pvc://models/drafters/{version}"}
    metadata = {"name": "kimi", "namespace": "llm", "uid": "uid-0", "generation": 3}
    return SpecDecodeServer.model_validate({"metadata": metadata, "spec": merged(wanted, spec)})


def record(version: str | None, number: int = 1, **fields: Any) -> RevisionRecord:
    """The record of a drafter version; spec=... for other inputs."""
    of = server(version, **fields.pop("spec", {}))
    content = revisions.content(of, SETTINGS)
    digest = fields.pop("digest", f"sha256:{version}")
    return RevisionRecord(
        revisions.name(of, content),
        number,
        content,
        digest=digest,
        target_digest=TARGET,
        engine=ENGINE,
        **fields,
    )


def launch(of: RevisionRecord, **fields: Any) -> LaunchPlan:
    """The launch plan that a pass over a healthy server keeps."""
    return LaunchPlan(
        assignment=7,
        server="llm/kimi",
        revision=of.name,
        target_path="/models/models/target",
        served_name="kimi",
        drafter=revisions.drafter_ref(of),
        num_steps=3,
        arguments=("--max-running-requests", "48"),
        warmup_seconds=300,
        written_at=exact(NOW - 5000),
    ).model_copy(update=fields)


def pod(promoted: RevisionRecord, number: int = 0, **status: Any) -> PodView:
    """A pod that serves the promoted drafter."""
    view = PodView(
        name=f"kimi-{number}",
        uid=f"uid-{number + 1}",
        created=NOW - 4000,
        ready=True,
        was_ready=True,
        restart_hash=revisions.restart_hash(promoted.data),
        heard_at=NOW - 1,
    )
    said: dict[str, Any] = {
        "serial": 1,
        "pod_uid": view.uid,
        "boot": "1",
        "phase": Phase.SERVING,
        "engine": ENGINE,
        "target_digest": TARGET,
        "assignment": 7,
        "revision": promoted.name,
        "promoted": promoted.name,
        "digest": promoted.digest,
        "steps": 3,
        "max_steps": 3,
        "drafting": Drafting.ON,
    }
    return replace(view, status=Status(**(said | status)))


def candidate(of: RevisionRecord, state: CandidateState, *, ago: float = 10.0, **fields: Any) -> Candidate:
    """A candidate that was swapped in some seconds ago."""
    swapped = exact(NOW - ago) if state not in (CandidateState.STAGING, CandidateState.REFUSED) else ""
    return Candidate(revision=of.name, state=state, swapped_at=swapped, digest=of.digest, **fields)


def serving(promoted: RevisionRecord, of: RevisionRecord, number: int = 0, *, ago: float = 10.0) -> PodView:
    """A pod that serves a candidate."""
    return pod(
        promoted,
        number,
        revision=of.name,
        digest=of.digest,
        candidate=candidate(of, CandidateState.SERVING, ago=ago),
    )


def verdict(judgement: Judgement, reason: str = "BelowFloor", *, needs_probe: bool = False) -> Verdict:
    """A verdict with a sentence."""
    return Verdict(
        judgement,
        reason,
        "accept length 1.31 < 1.60 over 52 requests (118 verify calls)",
        1.31,
        52,
        118,
        needs_probe=needs_probe,
    )


def world(
    of: SpecDecodeServer,
    promoted: RevisionRecord | None,
    *pods: PodView,
    records: tuple[RevisionRecord, ...] = (),
    **more: Any,
) -> World:
    """A world around a server."""
    status = more.pop("status", SpecDecodeServerStatus())
    if promoted is not None and status.active is None:
        since = exact(NOW - 4000)
        status = status.model_copy(update={"active": RevisionStatus(revision=promoted.name, since=since)})
    standing = launch(promoted) if promoted is not None else None
    return World(
        server=of.model_copy(update={"status": status}),
        settings=SETTINGS,
        pods=pods,
        claims=(ClaimView("models", exists=True, access_modes=("ReadOnlyMany",)),),
        revisions=records or ((promoted,) if promoted else ()),
        launch_plan=more.pop("launch_plan", standing),
        **more,
    )


def planned(of: World, **evidence: Verdict) -> Plan:
    """One pass; evidence by drafter version."""
    by_version = {revisions.version(item): item.name for item in of.revisions}
    return plan(of, {by_version[version]: said for version, said in evidence.items()}, NOW)


def told(made: Plan) -> list[str]:
    """Commands in short: pod, verb and what it is about."""
    return [f"{order.pod} {_words(order.command)}" for order in made.commands]


def outcomes(made: Plan) -> dict[str, str]:
    """Outcomes that the plan writes, by drafter version."""
    from specdec.resources import revision_record

    written = [revision_record(item) for item in made.objects if item["kind"] == "ControllerRevision"]
    return {revisions.version(item): item.outcome for item in written}


def launched(made: Plan) -> LaunchPlan | None:
    """The launch plan that the plan writes."""
    from specdec.resources import launch_plan_of

    return next((launch_plan_of(item) for item in made.objects if item["kind"] == "ConfigMap"), None)


def _words(command: Any) -> str:
    about = getattr(command, "drafter", None)
    if about is not None:
        return f"{command.verb} {about.version}"
    return f"{command.verb} {getattr(command, 'drafting', '') or getattr(command, 'reason', '')}".strip()
