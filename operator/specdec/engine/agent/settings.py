"""The agent's settings: environment variables that the pod's template sets, and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from specdec.engine.protocol import AGENT_PORT, ENGINE_PORT

if TYPE_CHECKING:
    from collections.abc import Mapping


class SettingsError(Exception):
    """The environment doesn't describe a pod of ours."""


class Settings(BaseModel):
    """Where things lie and who this pod is; each field is an environment variable in upper case."""

    model_config = ConfigDict(frozen=True, extra="ignore", use_attribute_docstrings=True)

    pod_uid: str = Field(min_length=1)
    """Audience that a command's signature must name."""
    plan_dir: Path = Path("/etc/specdec")
    """Where the launch plan's ConfigMap is mounted."""
    prompts_dir: Path = Path("/etc/specdec-prompts")
    """Where the ConfigMap of engine.warmupPrompts is mounted, if one is named."""
    state_dir: Path = Path("/var/lib/specdec")
    """Survives a container's restart, not the pod."""
    run_dir: Path = Path("/run/specdec")
    """Orders, sockets and reports of one start."""
    models_dir: Path = Path("/models")
    """Below it the claims are mounted; nothing outside is ever loaded."""
    specdec_profile: Path = Path("/opt/specdec/engine.json")
    """What the image says of its engine and platform."""
    termination_log: Path = Path("/dev/termination-log")
    """The kubelet's file for the container's termination message."""
    agent_host: str = "0.0.0.0"  # noqa: S104 - the kubelet and the operator reach a pod by its address
    agent_port: int = AGENT_PORT
    engine_host: str = "0.0.0.0"  # noqa: S104 - users reach the engine by the pod's address
    engine_port: int = ENGINE_PORT


def from_environment(environ: Mapping[str, str]) -> Settings:
    """Read the settings.

    Raises
    ------
    SettingsError
        A variable is missing or malformed.
    """
    known = {name: environ[name.upper()] for name in Settings.model_fields if environ.get(name.upper())}
    try:
        return Settings.model_validate(known)
    except ValidationError as error:
        first = error.errors()[0]
        name = str(first["loc"][0]).upper()
        raise SettingsError(
            f"environment variable {name} is {known.get(name.lower(), 'missing')!r}: {first['msg']}; set it in the pod"
        ) from error
