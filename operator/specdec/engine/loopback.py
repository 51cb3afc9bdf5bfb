"""What agent and plugin say to each other inside the pod.

The plugin runs in SGLang's scheduler processes. It is told things by a number through SGLang's own
`POST /set_internal_state` (`{"server_args": {"specdec_command": N}}`): SGLang hands that to every
tensor-parallel rank between the same two batches and waits for no request. The number names the file
`RUN_DIR/commands/N.json`, an :class:`Order`. The plugin is asked by connecting to the Unix socket
`RUN_DIR/scheduler-RANK.sock`, which answers each connection with one JSON line, a :class:`Report`.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from specdec.engine.message import Counters, Message

COMMAND_KEY = "specdec_command"
SECRET_HEADER = "x-specdec-secret"  # noqa: S105 - a header's name
"""Header that opens the routes which users can't reach."""

RUN_DIR = "SPECDEC_RUN_DIR"
"""Environment variable: the writable folder for orders and sockets."""
SECRET = "SPECDEC_SECRET"  # noqa: S105 - a variable's name
"""Environment variable: the loopback secret, random per start."""
REVISION = "SPECDEC_REVISION"
"""Environment variable: the revision that the engine starts with."""
PROBE_PREFIX = "SPECDEC_PROBE_PREFIX"
"""Environment variable: request ids that begin so are the agent's own (random per start)."""
DRAFTING = "SPECDEC_DRAFTING"
"""Environment variable: `On` or `Off`, the mode before the first batch."""

BUSY = "Busy"
"""Reason of a refused Stage: another drafter is being staged, so this one is ordered again."""

START_REPORT = "load-report.json"
"""Name of the :class:`StartReport` below the run folder."""


class Stage(Message):
    """Read a drafter into a CPU shadow in a thread and check it whole."""

    op: Literal["stage"] = "stage"
    overlay: str
    """Folder with the normalised config.json and the weights."""
    revision: str


class Commit(Message):
    """Copy the staged shadow into the serving drafter at the next loop boundary, if all ranks have it."""

    op: Literal["commit"] = "commit"
    stage: int
    """Number of the Stage order."""


class Steps(Message):
    """Draft with so many steps from the next batch on; 0 is off."""

    op: Literal["steps"] = "steps"
    steps: int
    warm: bool = False
    """At 0 steps: go on writing draft KV, so that the way back is at once as good as before, at a price."""


Order = Annotated[Stage | Commit | Steps, Field(discriminator="op")]


class Outcome(Message):
    """What became of one order on one rank."""

    number: int
    state: Literal["working", "done", "refused"]
    reason: str = ""
    """CamelCase, for example TensorsNotConsumed, ParametersNotFed, ShapeMismatch, NotFinite, ConfigDiffers."""
    message: str = ""
    """Why it was refused; of a Stage that was done, how the drafter was read."""
    seconds: str = ""
    """For a commit: the pause, from loop boundary to continuing."""
    in_flight: int = 0
    """For a commit: user requests in flight."""


class LoadReport(Message):
    """Which tensors fed which parameters in the last load, at the start or at a swap."""

    fed: int = 0
    """Parameters that got a tensor."""
    tensors: int = 0
    """Tensors that the checkpoint holds, after the overlay's rules."""
    consumed: int = 0
    """Tensors that went into a parameter."""
    not_consumed: tuple[str, ...] = ()
    not_fed: tuple[str, ...] = ()
    allowed: tuple[str, ...] = ()
    """Names that may be missing or unused, each with its reason (`name: reason`)."""

    @property
    def sentence(self) -> str:
        """Say how the checkpoint was read: what went in, and each exception with its reason."""
        reasons = [f"{name} {reason}" for name, _, reason in (text.partition(": ") for text in self.allowed)]
        counted = f"{self.consumed} of {self.tensors} tensors consumed by {self.fed} parameters"
        return "; ".join((counted, *reasons))


class StartReport(Message):
    """`RUN_DIR/load-report.json`: how the drafter loaded, and why the plugin refuses to start, if it does."""

    reason: str = ""
    """CamelCase; "" if nothing stands in the way."""
    message: str = ""
    load: LoadReport | None = None


class Report(Message):
    """What the plugin of one rank says of its scheduler."""

    rank: int
    sglang: str
    patches: tuple[str, ...]
    """Patches in force in this process."""
    revision: str
    steps: int
    """Steps in force, read from the worker."""
    states: tuple[int, ...]
    """Step counts that the engine holds runtime states for."""
    plain: bool = False
    """Whether the target decodes as a server without a drafter while drafting is off."""
    in_flight: int = 0
    """User requests running or waiting."""
    load: LoadReport | None = None
    outcomes: tuple[Outcome, ...] = ()
    """The last 16 orders."""
    counters: tuple[Counters, ...] = ()
