"""The operator's settings: environment variables `SPECDEC_*`, nothing else."""

from __future__ import annotations

import os
import socket
from enum import StrEnum
from typing import Annotated

from pydantic import Field, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict


class LogFormat(StrEnum):
    """How log lines look."""

    JSON = "json"
    """One object per line, with the Kubernetes object that it is about."""
    PLAIN = "plain"
    """For a terminal."""


class OperatorSettings(BaseSettings):
    """What an installation decides; each field is `SPECDEC_` and its name in upper case."""

    model_config = SettingsConfigDict(env_prefix="SPECDEC_", frozen=True, use_attribute_docstrings=True)

    default_image: str
    """Engine image of servers that name none."""
    image_prefixes: Annotated[tuple[str, ...], NoDecode] = ()
    """Prefixes that engine images must begin with, comma-separated; the default image is always allowed."""
    namespaces: Annotated[tuple[str, ...], NoDecode] = ()
    """Namespaces that are served, comma-separated; all of the cluster if empty."""
    namespace: str = "specdec-system"
    """The operator's own namespace: Lease and signing key."""
    identity: str = Field(default_factory=socket.gethostname)
    """Name of this process in the Lease."""
    log_format: LogFormat = LogFormat.JSON
    log_level: str = "INFO"
    http_host: str = "0.0.0.0"  # noqa: S104 - the kubelet and Prometheus reach a pod by its address
    http_port: int = 8080
    """Port of /metrics and /healthz."""
    workers: int = Field(default=8, ge=1)
    """Passes that run at the same time, over all servers."""
    pollers: int = Field(default=64, ge=1)
    """Agents that are asked at the same time."""
    resync_seconds: float = 300.0
    """How often the watches' memory is compared with a fresh list."""

    @field_validator("image_prefixes", "namespaces", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        if isinstance(value, str):
            return tuple(part.strip() for part in value.split(",") if part.strip())
        return value


def unique_identity(settings: OperatorSettings) -> str:
    """Name one life of one process: a container that restarts is another holder of the Lease."""
    return f"{settings.identity}_{os.urandom(4).hex()}"
