"""`SpecDecodeServer`, version v1alpha1: what a user writes and what the operator answers."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

from pydantic import ConfigDict, Field

from specdec.api.base import ApiModel, Condition, Decimal, ModelUri, Name, PriorityClass, rule, rules
from specdec.api.drafter import Drafter
from specdec.api.preflight import Preflight, PreflightStatus
from specdec.api.warmup import WarmupStatus


class Mode(StrEnum):
    """Whether verdicts are acted upon."""

    ENFORCE = "Enforce"
    OBSERVE = "Observe"


class DraftingMode(StrEnum):
    """The user's wish for drafting."""

    AUTO = "Auto"
    OFF = "Off"


ServedName = Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[A-Za-z0-9][A-Za-z0-9._/-]*$")]


class Target(ApiModel):
    """The large model that is served."""

    model: ModelUri
    """Folder with the target's config.json and safetensors: pvc://CLAIM/FOLDER."""
    served_name: ServedName | None = None
    """Model name in the OpenAI API; the object's name by default."""


class Speculation(ApiModel):
    """How the drafter is used."""

    num_steps: Annotated[int, Field(ge=1, le=16)] = 3
    """Tokens drafted before each verify call (SGLang's --speculative-num-steps); a change restarts engines."""


class Toleration(ApiModel):
    """A toleration of GPU nodes' taints, as in a pod."""

    key: Annotated[str, Field(max_length=316)] | None = None
    """Taint key; empty matches all keys with operator Exists."""
    operator: Annotated[str, Field(pattern="^(Exists|Equal)$")] = "Equal"
    """Exists or Equal."""
    value: Annotated[str, Field(max_length=63)] | None = None
    """Taint value."""
    effect: Annotated[str, Field(pattern="^(NoSchedule|PreferNoSchedule|NoExecute)$")] | None = None
    """Taint effect; all by default."""
    toleration_seconds: Annotated[int, Field(ge=0, le=86400)] | None = None
    """How long a NoExecute taint is tolerated."""


class Scheduling(ApiModel):
    """Where engine pods may run."""

    node_selector: Annotated[dict[str, Annotated[str, Field(max_length=63)]], Field(max_length=16)] = {}
    """Labels that a node must have."""
    tolerations: Annotated[tuple[Toleration, ...], Field(max_length=16)] = ()
    """Taints that are tolerated."""
    spread_over: Annotated[str, Field(max_length=316)] | None = None
    """Topology key over which replicas are spread, for example kubernetes.io/hostname."""
    priority_class_name: PriorityClass | None = None
    """PriorityClass of the pods."""
    runtime_class_name: Name | None = None
    """RuntimeClass of the pods."""


Quantity = Annotated[str, Field(max_length=20, pattern=r"^[0-9]+(\.[0-9]+)?(m|k|M|G|T|Ki|Mi|Gi|Ti)?$")]


class Resources(ApiModel):
    """Compute resources of the engine container."""

    requests: Annotated[dict[str, Quantity], Field(max_length=8)] = {}
    """What the scheduler reserves."""
    limits: Annotated[dict[str, Quantity], Field(max_length=8)] = {}
    """What the container may use; nvidia.com/gpu belongs here."""


Parser = Annotated[str, Field(min_length=1, max_length=63, pattern=r"^[a-z0-9][a-z0-9._-]*$")]


class Engine(ApiModel):
    """SGLang and the pod that it runs in."""

    image: (
        Annotated[str, Field(min_length=1, max_length=512, pattern=r"^[a-z0-9][A-Za-z0-9._:/@-]*$")] | None
    ) = None
    """Engine image, from the prefixes that the operator allows; the operator's default if left out."""
    image_pull_secrets: Annotated[tuple[Name, ...], Field(max_length=8)] = ()
    """Names of pull secrets in the same namespace."""
    tensor_parallel: Annotated[int, Field(ge=1, le=64)] = 1
    """GPUs that one engine spans (SGLang's --tp)."""
    context_length: Annotated[int, Field(ge=128, le=4194304)] | None = None
    """Longest context in tokens; the target's own by default."""
    max_running_requests: Annotated[int, Field(ge=1, le=4096)] = 48
    """Requests decoded at once."""
    max_total_tokens: Annotated[int, Field(ge=256, le=1073741824)] | None = None
    """Size of the KV cache in tokens; by memory if left out."""
    mem_fraction_static: Annotated[str, Field(pattern=r"^0\.[0-9]{1,3}$")] | None = None
    """Share of GPU memory for weights and KV cache, a decimal string below 1."""
    trust_remote_code: bool = False
    """Run the Python code that the target's folder brings, as Kimi-K2.5 needs for its tokenizer; it can do what the pod can."""
    reasoning_parser: Parser | None = None
    """SGLang's parser that tells thinking from the answer, for example kimi_k2."""
    tool_call_parser: Parser | None = None
    """SGLang's parser of tool calls, for example kimi_k2."""
    resources: Resources = Resources()
    """Compute resources of the engine container."""
    shared_memory: Quantity = "1Gi"
    """Size of /dev/shm; it counts as memory."""
    cache_claim: Name | None = None
    """Claim for compile caches, which make later starts faster; an emptyDir if left out."""
    volumes: Annotated[tuple[Name, ...], Field(max_length=8)] = ()
    """Further claims to mount from the start, so that a drafter from them needs no restart."""
    scheduling: Scheduling = Scheduling()
    """Where pods may run."""
    pod_labels: Annotated[dict[str, Annotated[str, Field(max_length=63)]], Field(max_length=16)] = {}
    """Further labels of the pods; those of specdec.dev, kubernetes.io and k8s.io are the operator's, and left out."""
    drain_timeout_seconds: Annotated[int, Field(ge=0, le=3600)] = 30
    """How long a pod that ends may finish its streams."""
    stall_seconds: Annotated[int, Field(ge=30, le=86400)] = 1800
    """A start that makes no progress for this long has failed; a slow start that progresses has not."""
    warmup_seconds: Annotated[int, Field(ge=10, le=3600)] = 300
    """Deadline of the warm-up before a pod gets traffic."""
    warmup_prompts: Name | None = None
    """ConfigMap of the namespace whose values are the prompts of warm-up and probes; ordinary ones if left out."""


class BaselineMode(StrEnum):
    """Whether drafting is compared with none under the live load."""

    MEASURE = "Measure"
    OFF = "Off"


Share = Annotated[str, Field(pattern=r"^(0(\.[0-9]{1,4})?|1(\.0{1,4})?)$", max_length=6)]
"""A decimal string from 0 to 1."""


class Acceptance(ApiModel):
    """The user's floor: a drafter below it is rolled back."""

    min_accept_length: Decimal | None = None
    """Lowest accept length (1 = nothing accepted, numSteps + 1 = everything), a decimal string."""
    min_accept_rate: Share | None = None
    """Lowest accept rate = (accept length - 1) / numSteps, a decimal string from 0 to 1."""
    min_requests: Annotated[int, Field(ge=1, le=1000)] = 4
    """Fewest distinct requests before a verdict on the floor."""
    max_regression: Share = "0.05"
    """Share of the active drafter's accept length that a candidate may lose, on the same traffic or after it on a single engine; 1 allows everything."""
    baseline: BaselineMode = BaselineMode.OFF
    """Measure switches drafting off on one engine for 3 s in 30 s (in 300 s from half an hour after a promotion on), never while it is saturated, and leaves it off while it does not pay."""
    off_factor: Annotated[str, Field(pattern=r"^(0\.[0-9]{1,4}|1(\.0{1,4})?)$", max_length=6)] = "1"
    """Speed of an engine with drafting off over that of one without a drafter, measured once; with 1 the speedup is against off and flatters."""


class RolloutSettings(ApiModel):
    """How a new drafter becomes the active one."""

    min_soak_seconds: Annotated[int, Field(ge=0, le=86400)] = 30
    """How long a candidate serves before it may be promoted."""
    confirm_within_seconds: Annotated[int, Field(ge=5, le=3600)] = 60
    """Dead-man switch: an engine that hears nothing from the operator for this long swaps a candidate back by itself."""
    progress_deadline_seconds: Annotated[int, Field(ge=30, le=86400)] = 600
    """A rollout that makes no progress for this long is stalled."""
    fallback_restart_seconds: Annotated[int, Field(ge=0, le=604800)] = 3600
    """With drafting off for this long, engines that can't decode plainly meanwhile restart without speculation, one at a time; 0 never does."""
    paused: bool = False
    """Hold the rollout where it is; a failing candidate is still rolled back."""
    pinned_revision: Annotated[str, Field(min_length=1, max_length=63)] | None = None
    """Serve this revision whatever the spec's drafter is."""


_STEPS = "(has(self.speculation) && has(self.speculation.numSteps) ? self.speculation.numSteps : 3)"

FLOOR_LENGTH = rule(
    "!has(self.acceptance) || !has(self.acceptance.minAcceptLength)"
    f" || double(self.acceptance.minAcceptLength) <= double({_STEPS}) + 1.0",
    "acceptance.minAcceptLength is above speculation.numSteps + 1, the most that a drafter can reach",
    # format, not string(): the cost of string() of a number is estimated as unbounded.
    messageExpression="'acceptance.minAcceptLength is %s, but with speculation.numSteps = %d the most that a drafter"
    " can reach is %d: lower the floor or raise numSteps'"
    f".format([self.acceptance.minAcceptLength, {_STEPS}, {_STEPS} + 1])",
)
FLOOR_POSSIBLE = rule(
    "!has(self.acceptance) || !has(self.acceptance.minAcceptLength) || double(self.acceptance.minAcceptLength) >= 1.0",
    "acceptance.minAcceptLength must be 1 or more: 1 is what a drafter reaches of which nothing is accepted",
)
STEPS_NEED_DRAFTER = rule(
    "!has(self.speculation) || has(self.drafter)",
    "speculation.numSteps is set but there is no drafter: give drafter.model, or remove speculation",
)
FLOOR_NEEDS_DRAFTER = rule(
    "!has(self.acceptance) || has(self.drafter) || !(has(self.acceptance.minAcceptLength) || has(self.acceptance.minAcceptRate))",
    "acceptance has a floor but there is no drafter: give drafter.model, or remove acceptance",
)


class SpecDecodeServerSpec(ApiModel):
    """What should be served."""

    model_config = ConfigDict(
        json_schema_extra=rules(STEPS_NEED_DRAFTER, FLOOR_NEEDS_DRAFTER, FLOOR_POSSIBLE, FLOOR_LENGTH)
    )

    target: Target
    """The large model that is served."""
    drafter: Drafter | None = None
    """The small model that guesses; without it the target is served plainly."""
    speculation: Speculation | None = None
    """How the drafter is used."""
    replicas: Annotated[int, Field(ge=0, le=1000)] | None = Field(
        default=None,
        # Without a stored value the API server refuses to read the scale subresource, which an autoscaler needs.
        json_schema_extra={"default": 1},
    )
    """Engine pods; leave it out where an autoscaler sets it through the scale subresource (1 until then)."""
    mode: Mode = Mode.ENFORCE
    """Enforce acts on verdicts; Observe only says in events what it would have done."""
    drafting: DraftingMode = DraftingMode.AUTO
    """Off serves without drafting until it is set back to Auto; see also rollout.fallbackRestartSeconds."""
    acceptance: Acceptance = Acceptance()
    """The user's floor: a drafter below it is rolled back."""
    rollout: RolloutSettings = RolloutSettings()
    """How a new drafter becomes the active one."""
    preflight: Preflight = Preflight()
    """How a drafter is judged by its headers before it may serve."""
    engine: Engine = Engine()
    """SGLang and the pod that it runs in."""
    revision_history_limit: Annotated[int, Field(ge=1, le=50)] = 10
    """Revisions kept for history and undo."""

    @property
    def num_steps(self) -> int:
        """Steps in force (3 where nothing is said)."""
        return self.speculation.num_steps if self.speculation else 3


class RevisionStatus(ApiModel):
    """A revision as the status shows it."""

    revision: str
    """Name of the ControllerRevision."""
    version: str = ""
    """The user's name of the drafter ("" without one)."""
    digest: str = ""
    """Content digest of the drafter."""
    since: str = ""
    """When it took this place, RFC 3339."""


class AcceptanceStatus(ApiModel):
    """What live traffic shows of the serving drafter, pooled over all engines that serve it."""

    revision: str = ""
    """The serving revision that these figures are of: a candidate as soon as one engine serves it."""
    accept_length: str = ""
    """1 + correct drafts / verify calls, a decimal string."""
    accept_rate: str = ""
    """(accept length - 1) / numSteps."""
    speedup: str = ""
    """A request's tokens per second with drafting over those without, times acceptance.offFactor; "" if not measured."""
    per_position: tuple[str, ...] = ()
    """Share of verify calls in which the draft at each position was right."""
    requests: int = 0
    """Distinct requests seen."""
    verify_calls: int = 0
    """Verify calls seen."""
    verdict: str = ""
    """Healthy, Unhealthy or Unknown."""
    message: str = ""
    """The evidence in a sentence."""


class QuarantineEntry(ApiModel):
    """A drafter that is refused until it, the target or the engine changes, or the user says retry."""

    drafter_digest: str
    """Content digest of the drafter."""
    target_digest: str = ""
    """Digest of the target that it failed with."""
    engine: str = ""
    """Engine build that it failed on."""
    version: str = ""
    """The user's name for it."""
    reason: str
    """Why, CamelCase."""
    message: str = ""
    """The evidence in a sentence."""
    at: str
    """When, RFC 3339."""


class SpecDecodeServerStatus(ApiModel):
    """What is served, and why."""

    observed_generation: int = 0
    """The generation that this status was computed for."""
    phase: str = ""
    """Derived from the conditions, for people."""
    conditions: Annotated[
        tuple[Condition, ...],
        Field(json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}),
    ] = ()
    """Ready, DrafterCurrent, Reconciling, Stalled, AcceptanceHealthy, PreflightPassed."""
    replicas: int = 0
    """Engine pods that exist."""
    ready_replicas: int = 0
    """Engine pods that serve."""
    selector: str = ""
    """Label selector of the pods, for the scale subresource."""
    active: RevisionStatus | None = None
    """What serves."""
    candidate: RevisionStatus | None = None
    """What is being judged."""
    last_good: RevisionStatus | None = None
    """What a rollback returns to."""
    acceptance: AcceptanceStatus | None = None
    """What live traffic shows of the serving drafter."""
    warmup: WarmupStatus | None = None
    """What the newest warm-up of an engine showed; of several replicas the one that ended last."""
    drafter_load: Annotated[str, Field(max_length=256)] = ""
    """How an engine read the serving drafter's tensors: consumed, mended, shared with the target."""
    rollout: str = ""
    """The rollout in a word, for the printer column: Idle, Staging, Probing, Judging, RolledBack, Refused, Paused ..."""
    reason: str = ""
    """Reason of the most important condition, for the printer column."""
    engine: str = ""
    """Engine build."""
    quarantine: Annotated[tuple[QuarantineEntry, ...], Field(max_length=20)] = ()
    """Drafters that are refused."""
    preflight: PreflightStatus | None = None
    """What the preflight of the spec's drafter found."""
    drafting_off_since: str = ""
    """Since when drafting is off because the spec says so or no drafter is known to be good, RFC 3339; rollout.fallbackRestartSeconds
    counts from here."""
    slower_since: str = ""
    """Since when drafting is off because it did not pay under the live load, RFC 3339."""
    probe_asked: str = ""
    """Id of the last probe that live traffic gave cause for: REVISION/UNIX SECONDS."""
    last_handled_request: str = ""
    """The last value of the annotation specdec.dev/request that was answered."""
    last_answer: Annotated[str, Field(max_length=1024)] = ""
    """The answer to it, in a sentence; one that begins with "VERB refused:" changed nothing."""
    last_evidence: Annotated[str, Field(max_length=1024)] = ""
    """The last verdict that changed something, in a sentence."""


NAME_FITS = rule(
    "self.metadata.name.matches('^[a-z]([-a-z0-9]{0,46}[a-z0-9])?$')",
    "metadata.name must be 1 to 48 lower-case letters, digits and '-', beginning with a letter and ending with a letter"
    " or digit: services and pods are named after it",
)


class SpecDecodeServer(ApiModel):
    """A large model served with speculative decoding, whose drafter is rolled out, judged and rolled back in place."""

    model_config = ConfigDict(json_schema_extra=rules(NAME_FITS))

    api_version: str = "specdec.dev/v1alpha1"
    kind: str = "SpecDecodeServer"
    metadata: dict[str, Any] = {}
    spec: SpecDecodeServerSpec
    status: SpecDecodeServerStatus = SpecDecodeServerStatus()

    @property
    def name(self) -> str:
        """The object's name."""
        return str(self.metadata["name"])

    @property
    def namespace(self) -> str:
        """The object's namespace."""
        return str(self.metadata["namespace"])

    @property
    def generation(self) -> int:
        """The spec's generation."""
        return int(self.metadata.get("generation", 0))
