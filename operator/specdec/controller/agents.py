"""The agents in the engine pods, over HTTP by pod address."""

from __future__ import annotations

from typing import Protocol, TypeVar

import aiohttp
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from pydantic import ValidationError

from specdec.controller import metrics
from specdec.engine import signing
from specdec.engine.protocol import AGENT_PORT, Answer, Envelope, Message, PreflightResult, Status

ANSWER_SECONDS = 2.0
"""Deadline of an answer, on top of what a long poll may wait."""
COMMAND_SECONDS = 5.0
"""Deadline of a command: the agent decides at once, but may be busy with a request of its own."""
STATUS_BYTES = 4096
"""An agent that says more than this is not listened to: a status has at most 2 KB."""

Read = TypeVar("Read", bound=Message)


class AgentError(Exception):
    """The agent did not answer, or not in words that are understood."""


class Agents(Protocol):
    """What the controller asks of agents."""

    async def status(self, address: str, *, since: int | None = None, wait: float = 0.0) -> Status:
        """Ask for the status; with `since`, wait until the serial differs."""

    async def preflight(self, address: str, revision: str) -> PreflightResult:
        """Ask what the preflight found of a revision."""

    async def command(self, address: str, pod_uid: str, envelope: Envelope) -> Answer:
        """Hand over one signed command."""


class HttpAgents:
    """Agents behind their pods' addresses."""

    def __init__(self, session: aiohttp.ClientSession, key: Ed25519PrivateKey) -> None:
        self._session = session
        self._key = key

    async def status(self, address: str, *, since: int | None = None, wait: float = 0.0) -> Status:
        """Ask for the status; with `since`, wait until the serial differs."""
        query = {"since": str(since), "wait": f"{wait:g}"} if since is not None and wait else {}
        return await self._read(Status, address, "status", query, ANSWER_SECONDS + wait)

    async def preflight(self, address: str, revision: str) -> PreflightResult:
        """Ask what the preflight found of a revision."""
        return await self._read(PreflightResult, address, "preflight", {"revision": revision}, ANSWER_SECONDS)

    async def _read(
        self, model: type[Read], address: str, path: str, query: dict[str, str], seconds: float
    ) -> Read:
        timeout = aiohttp.ClientTimeout(total=seconds, connect=ANSWER_SECONDS)
        try:
            async with self._session.get(
                url(address, path), params=query, timeout=timeout, allow_redirects=False
            ) as answer:
                answer.raise_for_status()
                body = await _body(answer)
            return model.model_validate_json(body)
        except (aiohttp.ClientError, TimeoutError, OSError, ValidationError) as error:
            metrics.AGENT_ERRORS.labels(request=path).inc()
            raise AgentError(f"agent at {address}: {_words(error)}") from error

    async def command(self, address: str, pod_uid: str, envelope: Envelope) -> Answer:
        """Hand over one signed command."""
        body = envelope.model_dump_json(by_alias=True).encode()
        token = signing.sign(self._key, pod_uid=pod_uid, body=body)
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        timeout = aiohttp.ClientTimeout(total=COMMAND_SECONDS, connect=ANSWER_SECONDS)
        try:
            async with self._session.post(
                url(address, "commands"), data=body, headers=headers, timeout=timeout, allow_redirects=False
            ) as answer:
                return Answer.model_validate_json(await _body(answer))
        except (aiohttp.ClientError, TimeoutError, OSError, ValidationError) as error:
            metrics.AGENT_ERRORS.labels(request="command").inc()
            raise AgentError(f"agent at {address}: {_words(error)}") from error


async def _body(answer: aiohttp.ClientResponse) -> bytes:
    """Read an answer, which may come in pieces, up to the bound."""
    body = b""
    async for piece in answer.content.iter_any():
        body += piece
        if len(body) > STATUS_BYTES:
            raise aiohttp.ClientPayloadError(f"it says more than {STATUS_BYTES} bytes")
    return body


def url(address: str, path: str) -> str:
    """URL of an agent's route; IPv6 addresses are bracketed."""
    host = f"[{address}]" if ":" in address else address
    return f"http://{host}:{AGENT_PORT}/{path}"


def _words(error: Exception) -> str:
    if isinstance(error, ValidationError):
        return f"its answer is not understood ({error.error_count()} fields)"
    return f"{type(error).__name__} {error}".strip()
