"""What the planner sees and what it answers: snapshots in, one plan out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from specdec.acceptance.verdict import Verdict
from specdec.api.v1alpha1 import SpecDecodeServer, SpecDecodeServerStatus
from specdec.engine.protocol import Command, LaunchPlan, PreflightResult, Status


@dataclass(frozen=True)
class Settings:
    """The operator's own settings that decisions depend on."""

    default_image: str
    image_prefixes: tuple[str, ...]
    public_keys: tuple[str, ...] = ()


@dataclass(frozen=True)
class PodView:
    """One engine pod: what the kubelet says and what its agent says."""

    name: str
    uid: str
    created: float
    """Unix seconds."""
    ready: bool = False
    deleting: bool = False
    deleting_since: float | None = None
    restart_hash: str = ""
    """Label `specdec.dev/restart-hash`: the hash of the user's inputs that the pod was made from."""
    unschedulable: str = ""
    """The scheduler's message while it finds no node."""
    waiting_reason: str = ""
    """The container's waiting reason (ImagePullBackOff, CrashLoopBackOff, CreateContainerConfigError ...)."""
    waiting_message: str = ""
    restarts: int = 0
    was_ready: bool = False
    status: Status | None = None
    """The agent's last status; None while it never answered."""
    heard_at: float | None = None
    """Unix seconds of that status."""


@dataclass(frozen=True)
class ClaimView:
    """A PersistentVolumeClaim that the server names."""

    name: str
    exists: bool
    access_modes: tuple[str, ...] = ()
    """None are known where the operator may not look."""


@dataclass(frozen=True)
class PreflightJob:
    """A Job that judges a drafter where no engine can, and its pod."""

    name: str
    revision: str
    created: float
    """Unix seconds."""
    result: PreflightResult | None = None
    """The last words of its pod."""
    failed: str = ""
    """Kubernetes' sentence, once the Job was given up."""
    pod: PodView | None = None


@dataclass(frozen=True)
class RevisionRecord:
    """A ControllerRevision: what was to be served, and what became of it."""

    name: str
    number: int
    """ControllerRevision.revision, rises."""
    data: dict[str, Any]
    """The revision: image, restart inputs, target, drafter (`rollout.revisions.content`)."""
    outcome: str = ""
    """"" while not judged; Promoted, Rejected or Superseded."""
    reason: str = ""
    message: str = ""
    digest: str = ""
    """Content digest of the drafter, once an agent staged it."""
    target_digest: str = ""
    engine: str = ""
    at: str = ""
    """When the outcome was written, or when another trial began, RFC 3339."""
    accept_length: str = ""
    """Evidence of live traffic that the outcome rests on ("" for none): accept length ..."""
    requests: int = 0
    """... over so many distinct requests ..."""
    calls: int = 0
    """... and verify calls."""
    preflight: str = ""
    """What the preflight found: a `PreflightResult` as JSON; "" before it ended."""
    uid: str = ""
    """UID of the ControllerRevision; "" before it is written."""


@dataclass(frozen=True)
class World:
    """Everything that is observed of one server."""

    server: SpecDecodeServer
    settings: Settings
    pods: tuple[PodView, ...] = ()
    claims: tuple[ClaimView, ...] = ()
    revisions: tuple[RevisionRecord, ...] = ()
    launch_plan: LaunchPlan | None = None
    """The plan that stands in the ConfigMap."""
    workload: dict[str, Any] | None = None
    """The StatefulSet as it stands."""
    preflights: tuple[PreflightJob, ...] = ()
    request: str = ""
    """The annotation specdec.dev/request."""
    told: tuple[RevisionRecord, ...] | None = None
    """The records that status and events told of last, where a pass ended between them and its records; None: those that stand."""

    @property
    def told_of(self) -> dict[str, RevisionRecord]:
        """Records by name, as status and events have told of them."""
        records = self.revisions if self.told is None else self.told
        return {record.name: record for record in records}


@dataclass(frozen=True)
class AgentCommand:
    """A command for one pod's agent."""

    pod: str
    command: Command


@dataclass(frozen=True)
class Event:
    """A Kubernetes Event on the server, posted after the status write succeeded."""

    type: str
    """Normal or Warning."""
    reason: str
    message: str


@dataclass(frozen=True)
class Plan:
    """What should be done now; everything else only observes or applies it."""

    objects: tuple[dict[str, Any], ...]
    """Manifests to apply by server-side apply, in order."""
    commands: tuple[AgentCommand, ...] = ()
    """After the objects."""
    deletions: tuple[dict[str, str], ...] = ()
    """Objects to delete: kind, name, uid."""
    status: SpecDecodeServerStatus = field(default_factory=SpecDecodeServerStatus)
    events: tuple[Event, ...] = ()
    poll_seconds: float = 5.0
    """How often the agents are asked: 0.25 to 1 with a candidate, 5 at rest."""
    requeue_after: float = 30.0


Evidence = dict[str, Verdict]
"""Verdicts by revision name."""
