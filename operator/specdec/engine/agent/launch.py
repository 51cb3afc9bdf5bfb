"""SGLang's command line and environment: plan + image profile + overlay, and nothing read from anywhere else."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, ValidationError

from specdec.engine import loopback
from specdec.preflight.argument_table import known_arguments
from specdec.preflight.arguments import OWNED

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from specdec.engine.agent.ladder import Rung
    from specdec.engine.protocol import Drafting, LaunchPlan

ADAPTIVE_FILE = "adaptive.json"
DEFAULTS = (("--max-running-requests", "48"), ("--decode-log-interval", "40"))
"""Rendered unless given. 48 is what SGLang sets by itself as soon as it drafts: on, off and none shall serve alike."""

WITHHELD = frozenset(
    {
        "POD_UID", "PLAN_DIR", "STATE_DIR", "RUN_DIR", "MODELS_DIR", "SPECDEC_PROFILE", "TERMINATION_LOG",
        "SGLANG_PLUGINS",
    }
)  # fmt: skip
"""Variables of the agent's own that SGLang doesn't get."""


class LaunchRefusedError(Exception):
    """The plan or the profile can't be rendered."""


class Profile(BaseModel):
    """What the image says of itself (`/opt/specdec/engine.json`)."""

    model_config = ConfigDict(frozen=True, extra="ignore", use_attribute_docstrings=True)

    engine: str = "sglang"
    version: str = ""
    platform: str = "cuda"
    args: tuple[str, ...] = ()
    """Arguments that the platform needs; the plan's come after them and win."""
    env: dict[str, str] = {}


@dataclass(frozen=True)
class Secrets:
    """Random per start; they never leave the pod."""

    loopback: str
    probe_prefix: str


@dataclass(frozen=True)
class Launch:
    """One start of SGLang."""

    argv: tuple[str, ...]
    environment: dict[str, str]
    adaptive: str
    """Content of RUN_DIR/adaptive.json: the step counts to hold runtime states for."""


def read_profile(path: Path) -> Profile:
    """Read the image's profile.

    Raises
    ------
    LaunchRefusedError
        It is missing or malformed.
    """
    try:
        return Profile.model_validate_json(path.read_bytes())
    except (OSError, ValidationError) as error:
        raise LaunchRefusedError(
            f"{path} can't be read as a platform profile ({error}): use an engine image of this project"
        ) from error


def render(
    plan: LaunchPlan,
    profile: Profile,
    *,
    python: str,
    overlay: Path | None,
    drafting: Drafting,
    address: tuple[str, int],
    run_dir: Path,
    secrets: Secrets,
    rung: Rung,
    environ: Mapping[str, str],
) -> Launch:
    """Render one start; without an overlay there is no speculation at all.

    Raises
    ------
    LaunchRefusedError
        The plan sets an argument that the agent owns.
    """
    refuse_owned(plan.arguments)
    argv = [python, "-m", "sglang.launch_server", *profile.args, *plan.arguments, *rung.arguments]
    given = _names([*profile.args, *plan.arguments])
    argv += [part for name, value in DEFAULTS if name not in given for part in (name, value)]
    argv += ["--model-path", plan.target_path, "--served-model-name", plan.served_name]
    argv += ["--host", address[0], "--port", str(address[1]), "--enable-metrics", "--skip-server-warmup"]
    if overlay is not None:
        argv += drafting_arguments(overlay, plan.num_steps, run_dir, profile.version)
    own = {
        loopback.RUN_DIR: str(run_dir),
        loopback.SECRET: secrets.loopback,
        loopback.PROBE_PREFIX: secrets.probe_prefix,
        loopback.REVISION: plan.revision if overlay is not None else "",
        loopback.DRAFTING: drafting.value,
    }
    inherited = {name: value for name, value in environ.items() if name not in WITHHELD}
    environment = {**inherited, **profile.env, **own}
    return Launch(tuple(argv), environment, json.dumps(adaptive(plan.num_steps, rung.off_batch)))


def adaptive(steps: int, off_batch: int | None) -> dict[str, dict[str, list[int]]]:
    """Name the step counts to hold runtime states for, by the batch size from which on they are wanted.

    SGLang captures a state's graphs for the batch sizes that want it; both states exist whatever the sizes
    (AdaptiveSpeculativeParams.cuda_graph_bs_for_step, 0.5.17 to 0.5.23).
    """
    both = {"1": {"candidate_steps": [0, steps]}}
    return both if off_batch is None else {**both, str(off_batch + 1): {"candidate_steps": [steps]}}


def drafting_arguments(overlay: Path, steps: int, run_dir: Path, version: str) -> list[str]:
    """Render what makes SGLang draft a chain of `steps` tokens, and hold a state that drafts none."""
    # Else the drafter's KV cache takes the type of the target's; older versions know no other.
    own_cache = "--speculative-draft-kv-cache-dtype" in (known_arguments(version) or {})
    return [
        "--speculative-algorithm", "EAGLE3",
        "--speculative-draft-model-path", str(overlay),
        "--speculative-num-steps", str(steps),
        "--speculative-eagle-topk", "1",
        "--speculative-num-draft-tokens", str(steps + 1),
        "--speculative-adaptive",
        "--speculative-adaptive-config", str(run_dir / ADAPTIVE_FILE),
        # Else the drafter inherits the target's quantisation.
        "--speculative-draft-model-quantization", "unquant",
        *(("--speculative-draft-kv-cache-dtype", "auto") if own_cache else ()),
    ]  # fmt: skip


def refuse_owned(arguments: tuple[str, ...]) -> None:
    """Refuse a plan whose arguments would undo what the agent renders.

    Raises
    ------
    LaunchRefusedError
        It has one.
    """
    for name in _names(arguments):
        # SGLang's parser also takes any unambiguous beginning of a name.
        owned = [own for own in OWNED if own == name or (own.startswith(name) and len(name) > len("--s"))]
        if owned:
            raise LaunchRefusedError(
                f"the plan sets {name}, expected it to leave {min(owned)} to the agent:"
                " take an engine image of the operator's release"
            )


def _names(arguments: tuple[str, ...] | list[str]) -> set[str]:
    return {argument.partition("=")[0] for argument in arguments if argument.startswith("--")}
