"""The agent's API: every message that crosses the network between operator and engine pod.

`GET /status` answers with :class:`Status` (open, read-only, at most 2 KB); `?since=SERIAL&wait=SECONDS`
answers as soon as the serial differs. `GET /preflight?revision=NAME` answers with a
:class:`PreflightResult`, without a revision with the whole reports of the drafters judged last, for people. `POST /commands` takes one :class:`Command` whose signature is in
the `Authorization` header (`specdec.engine.signing`) and answers with :class:`Answer` at once: what takes
longer is seen in the status. `/live` and `/ready` are the kubelet's.

Messages tolerate unknown fields, so that an older half can read a newer one.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import Field

from specdec.api.drafter import Layers
from specdec.api.preflight import Preflight
from specdec.engine.message import Counters, Drafting, Message, Source

__all__ = ["Counters", "Drafting", "Message", "Source"]

AGENT_PORT = 8701
"""Port of the agent's API."""

ENGINE_PORT = 30000
"""Port of SGLang's own (route-restricted) web app: users' traffic and /metrics."""

PLAN_KEY = "plan.json"
"""Key of the launch plan in the ConfigMap `NAME-engine`, and the file's name below the plan mount."""


class Phase(StrEnum):
    """Where the engine of one pod is between its start and its end."""

    STAGING = "Staging"
    """The drafter is linked into an overlay and hashed."""
    LOADING_WEIGHTS = "LoadingWeights"
    """SGLang's process runs and reads weights."""
    CAPTURING_GRAPHS = "CapturingGraphs"
    """Weights are in; CUDA graphs are being captured."""
    WARMING_UP = "WarmingUp"
    """SGLang answers; the agent sends its own requests until VERIFY was reached."""
    SERVING = "Serving"
    """Ready: users' requests are served."""
    DRAINING = "Draining"
    """Not ready any more; streams in flight are finished."""
    FAILED = "Failed"
    """The last start failed; `reason` and `message` say why; the agent tries again with backoff."""


class DrafterRef(Message):
    """One drafter version, as the pod sees it."""

    revision: str
    """Name of the revision that it belongs to."""
    version: str
    """The user's name for it, for people."""
    path: str
    """Folder below the pod's mounts, for example /models/models/drafters/v1."""
    layers: Layers | None = None
    """What the spec says of the layers that it was trained on."""


class PreflightResult(Message):
    """What the preflight of one drafter found: at most 4 KB, the last words of a preflight's Job."""

    revision: str = Field(max_length=63)
    settings: str = Field(max_length=64)
    """`Preflight.settings` of the spec that it was judged by."""
    at: str = Field(max_length=64)
    report: dict[str, Any] = {}
    """`Report.compact`, cut to what the message has room for; `specdec.preflight.report.expanded` reads it."""


class LaunchPlan(Message):
    """What a pod starts with: the promoted revision, never a candidate (ConfigMap `NAME-engine`)."""

    assignment: int
    """Rises with every plan and command of this server; the agent obeys the highest that it has seen."""
    server: str
    """namespace/name, for logs and messages."""
    revision: str
    """The promoted revision."""
    target_path: str
    served_name: str
    drafter: DrafterRef | None = None
    """None starts the engine without speculative arguments."""
    num_steps: int = 3
    drafting: Drafting = Drafting.ON
    preflight: Preflight = Preflight()
    """How the drafter is judged before a start."""
    arguments: tuple[str, ...] = ()
    """Engine arguments rendered from the spec, without those that the agent owns or the image's profile brings."""
    warmup_seconds: int = 120
    """Deadline of the whole warm-up."""
    stall_seconds: int = 1800
    """A start without progress for this long has failed."""
    drain_seconds: int = 30
    public_keys: tuple[str, ...] = ()
    """Ed25519 public keys, base64 of the raw 32 bytes: the operator's, two while it rotates."""
    written_at: str = ""
    """When this assignment was made, RFC 3339: a pod that is older started with another plan."""


class Swap(Message):
    """Make a drafter the serving candidate; without a :class:`Confirm` in time the agent swaps back by itself."""

    verb: Literal["Swap"] = "Swap"
    drafter: DrafterRef
    confirm_within_seconds: int = Field(ge=1, le=3600)
    preflight: Preflight = Preflight()
    """How it is judged while it is staged."""


class Confirm(Message):
    """Extend the dead-man switch of the serving candidate."""

    verb: Literal["Confirm"] = "Confirm"
    revision: str
    within_seconds: int = Field(ge=1, le=3600)


class Promote(Message):
    """The serving candidate is the one to start with from now on; ends the dead-man switch."""

    verb: Literal["Promote"] = "Promote"
    revision: str


class Rollback(Message):
    """Swap back to the promoted drafter now."""

    verb: Literal["Rollback"] = "Rollback"
    revision: str
    """The candidate to leave; a no-op if it does not serve."""
    reason: str


class SetDrafting(Message):
    """Switch drafting on or off in place, for good or for a measurement that ends without the operator too."""

    verb: Literal["SetDrafting"] = "SetDrafting"
    drafting: Drafting
    for_seconds: int = Field(default=0, ge=0, le=3600)
    """How long this holds before the mode of before comes back by itself; 0: until the next command."""


class Probe(Message):
    """Send the agent's own requests now; the answer is in `Status.probe` under this id."""

    verb: Literal["Probe"] = "Probe"
    id: str
    revision: str


class Drain(Message):
    """Become not ready and finish the streams in flight, before the operator deletes the pod."""

    verb: Literal["Drain"] = "Drain"


Command = Annotated[
    Swap | Confirm | Promote | Rollback | SetDrafting | Probe | Drain, Field(discriminator="verb")
]


class Envelope(Message):
    """Body of `POST /commands`; the JWT signs its bytes."""

    assignment: int
    epoch: int
    """The operator's lease epoch (leaseTransitions); a smaller one than already seen is refused."""
    command: Command


class Answer(Message):
    """Whether the agent took a command; `reason` is CamelCase, `message` a sentence."""

    accepted: bool
    reason: str = ""
    message: str = ""


class CandidateState(StrEnum):
    """What became of the last candidate."""

    STAGING = "Staging"
    SWAPPING = "Swapping"
    PROBING = "Probing"
    SERVING = "Serving"
    """Swapped in, probe passed, dead-man switch running."""
    REFUSED = "Refused"
    """Never served: `reason` says why (for example TensorsNotConsumed)."""
    SWAPPED_BACK = "SwappedBack"
    """Served and left again: failed probe, rollback or dead-man switch."""
    PROMOTED = "Promoted"


NOT_THERE = frozenset({"ConfigMissing", "FileMissing", "NoWeights", "PathOutsideModels"})
"""Reasons for a folder, or a file in it, that isn't there: a claim may be late, or a path be wrong."""

NOT_THE_DRAFTERS = frozenset({
    "Busy", "ChangedWhileStaged", "DigestTimedOut", "EngineEnded", "EngineUnreachable", "InternalError", "NotConfirmed",
    "NoDrafter", "NotReadable", "NotStaged", "OrderUnreadable", "OutOfMemory", "OverlayUnknown", "ProbeFailed: TooFewCalls",
    "SwapBackRefused", "TensorsMoved", "VolumeHangs",
})  # fmt: skip
"""Reasons of an ended candidate or start that say nothing of the drafter: its volume, the engine or the agent failed."""


class Candidate(Message):
    """The last drafter that a Swap named."""

    revision: str
    state: CandidateState
    reason: str = ""
    message: str = ""
    digest: str = ""
    """sha256 over the drafter's contents (config and tensors), from staging."""
    swap_seconds: str = ""
    """Time from the copy's start to the drafter serving, decimal string."""
    back_seconds: str = ""
    swapped_at: str = ""
    """RFC 3339, UTC, with microseconds, like all times here."""
    back_at: str = ""
    refused_at: str = ""
    """When it ended without ever having served."""
    requests_at_swap: int = 0
    """User requests in flight when it was swapped in."""
    confirm_by: str = ""


class ProbeResult(Message):
    """What the agent's own requests showed."""

    id: str = ""
    revision: str = ""
    passed: bool = False
    accept_length: str = ""
    calls: int = 0
    seconds: str = ""
    message: str = ""
    at: str = ""


class FailureReport(Message):
    """How the last start or life of the engine ended that was not asked to."""

    reason: str
    """CamelCase, as in `Status.reason`."""
    message: str = ""
    """What was found, the likely cause and what to do."""
    ended: str = ""
    """`exit code 1` or `signal 9`; "" if the agent ended it."""
    lines: tuple[str, ...] = ()
    """Last telling lines of the log, at most 6 of 160 characters; left out where the status gets too long."""
    at: str = ""


class Agreement(StrEnum):
    """Whether greedy answers are the same with drafting and without."""

    SAME = "Same"
    """Token for token, or up to a near tie: kernels of another shape may round to the other side."""
    DIFFERENT = "Different"
    """A token was emitted that the target itself holds for clearly worse: verification is broken."""
    UNKNOWN = "Unknown"
    """Not compared: no drafter, a dead one, no time, or an SGLang that returns no token ids."""


class Speed(Message):
    """Speed of the whole engine with so many of the agent's own requests at once."""

    batch: int
    on: str = ""
    """Kept tokens a second of decode with drafting, decimal string."""
    off: str = ""
    """The same without drafting."""


class WarmUp(ProbeResult):
    """What the agent's own requests showed before the pod was ready: the first baseline of this start."""

    per_position: tuple[str, ...] = ()
    """Share of verify calls whose draft at each position was right."""
    speeds: tuple[Speed, ...] = ()
    """By batch size, smallest first; empty if there was nothing to compare, or no time."""
    answers: Agreement = Agreement.UNKNOWN
    images: bool | None = None
    """Whether one image of the agent's own was answered with words; None if there was no point in asking."""


class Status(Message):
    """What one pod says of itself; at most 2 KB."""

    serial: int
    """Changes whenever anything but counters changed."""
    pod_uid: str
    boot: str
    """Changes with every start of the engine's process: counters begin again at 0."""
    phase: Phase
    reason: str = ""
    message: str = ""
    progress_at: str = ""
    """When the current phase last made progress."""
    engine: str = ""
    """Build: sglang version + platform + plugin version."""
    assignment: int = 0
    epoch: int = 0
    revision: str = ""
    """The serving revision ("" without a drafter)."""
    promoted: str = ""
    """The revision that a start would use."""
    digest: str = ""
    """Content digest of the serving drafter."""
    target_digest: str = ""
    """Digest of the target's config and tensor headers."""
    steps: int = 0
    """Steps in force, read from the worker."""
    max_steps: int = 0
    drafting: Drafting = Drafting.OFF
    drafting_until: str = ""
    """When a mode that was ordered for a while ends; "" where the mode lasts."""
    rung: str = ""
    """The start-up ladder's rung that worked ("" = as asked)."""
    in_flight: int = 0
    """User requests running or queued now."""
    failure: FailureReport | None = None
    """The last one since the agent started; it stays when the engine serves again."""
    candidate: Candidate | None = None
    preflight: PreflightResult | None = None
    """The drafter that was judged last, without the report: `GET /preflight?revision=` has it."""
    probe: ProbeResult | None = None
    warmup: WarmUp | None = None
    plain: bool = False
    """Whether drafting off decodes as a server without a drafter, or at a price by SGLang's verify path."""
    load: str = ""
    """How the serving drafter's tensors were read, in a sentence."""
    counters: tuple[Counters, ...] = ()
