"""A list and its watch as one stream that never ends: for the floor, and for the agents that stand beside an operator."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp

WATCH_SECONDS = 240
"""The API server ends a watch after so long, as it does for every client of its own."""
LATE_SECONDS = 20.0
"""A watch that is not ended by then is deaf, and left."""
BROKEN = (aiohttp.ClientPayloadError, aiohttp.ServerDisconnectedError, TimeoutError)
"""What ends a watch that another one resumes; an API server that refuses connections is gone."""
Manifest = dict[str, Any]


class ExpiredError(Exception):
    """The API server does not know any more what happened since a version."""


async def followed(
    session: aiohttp.ClientSession, url: str, *, late_seconds: float = LATE_SECONDS
) -> AsyncIterator[Manifest]:
    """Yield each object of a collection as it is and whenever it changes; one that was deleted, as it was.

    Raises
    ------
    aiohttp.ClientConnectorError
        The API server is gone.
    """
    while True:
        async with session.get(url) as answer:
            answer.raise_for_status()
            listed = await answer.json()
        for item in listed["items"]:
            yield item
        version = listed["metadata"]["resourceVersion"]
        try:
            while True:
                try:
                    async for found in _watched(session, url, version, late_seconds):
                        version = found["metadata"]["resourceVersion"]
                        yield found
                except BROKEN:
                    continue
        except ExpiredError:
            continue


async def _watched(
    session: aiohttp.ClientSession, url: str, version: str, late_seconds: float
) -> AsyncIterator[Manifest]:
    query = {"watch": "true", "resourceVersion": version, "timeoutSeconds": str(WATCH_SECONDS)}
    timeout = aiohttp.ClientTimeout(total=WATCH_SECONDS + late_seconds, sock_connect=late_seconds)
    async with session.get(url, params=query, timeout=timeout) as answer:
        if answer.status == 410:
            raise ExpiredError
        answer.raise_for_status()
        async for line in answer.content:
            event = json.loads(line)
            if event["type"] == "ERROR":
                raise ExpiredError
            yield event["object"]
