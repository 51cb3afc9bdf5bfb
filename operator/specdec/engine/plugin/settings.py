"""What the agent told this process through its environment."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from specdec.engine import loopback
from specdec.engine.message import Drafting


@dataclass(frozen=True)
class Settings:
    """The environment of an engine that the agent started."""

    run_dir: Path
    secret: str
    revision: str
    probe_prefix: str
    drafting: Drafting


def read(environment: os._Environ[str] | dict[str, str] = os.environ) -> Settings | None:
    """Read the environment; None if no agent started this process.

    Raises
    ------
    SystemExit
        The agent's environment is incomplete.
    """
    run_dir = environment.get(loopback.RUN_DIR, "")
    if not run_dir:
        return None
    secret, prefix = environment.get(loopback.SECRET, ""), environment.get(loopback.PROBE_PREFIX, "")
    if not secret or not prefix:
        raise SystemExit(
            f"specdec: {loopback.RUN_DIR} is set, but {loopback.SECRET} or {loopback.PROBE_PREFIX} is not"
        )
    return Settings(
        run_dir=Path(run_dir),
        secret=secret,
        revision=environment.get(loopback.REVISION, ""),
        probe_prefix=prefix,
        drafting=Drafting(environment.get(loopback.DRAFTING, Drafting.ON)),
    )
