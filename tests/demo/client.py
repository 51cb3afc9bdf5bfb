"""A steady client: streams chat completions through the Service at a fixed rate and writes one JSON line each.

Runs as a pod of its own, so that its requests take the way of any user's. Beside the requests it notes
what the engines' agents say of themselves twice a second. Needs nothing but aiohttp.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import signal
import socket
import sys
import time
from typing import Any

import aiohttp

AGENT_PORT = 8701
PROMPTS = [
    "Why does the sea look blue?",
    "Name three rivers in Asia and their lengths",
    "Summarise: the cat sat on the mat.",
    "Explain a TCP handshake, step by step",
    "Translate to French: good evening, everyone",
    "What is 17 * 23 =",
    "Praise a rainy day",
    "Which is the ninth month",
    "Go on: the quick brown fox jumped",
    "Write a haiku about a quiet night",
    "Find a rhyme for spring",
    "How do I cook a steak",
]
"""The tiny target answers by a prompt's last letter; with these, drafters reach about what their quality says."""


def say(**record: Any) -> None:
    """Write one record."""
    sys.stdout.write(json.dumps(record) + "\n")
    sys.stdout.flush()


async def ask(session: aiohttp.ClientSession, url: str, model: str, number: int, tokens: int) -> bool:
    """Stream one answer; say how it went."""
    body = {
        "model": model,
        "messages": [{"role": "user", "content": PROMPTS[number % len(PROMPTS)]}],
        "max_tokens": tokens,
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
        "return_spec_tokens_details": True,
        "ignore_eos": True,
    }
    record: dict[str, Any] = {"kind": "request", "n": number, "start": time.time(), "error": None, "calls": 0}
    try:
        await stream(session, f"{url}/v1/chat/completions", body, record)
    except (aiohttp.ClientError, RuntimeError, TimeoutError, ValueError) as error:
        record["error"] = f"{type(error).__name__}: {error}"
    record["end"] = time.time()
    say(**record)
    return record["error"] is None


async def stream(
    session: aiohttp.ClientSession, url: str, body: dict[str, Any], record: dict[str, Any]
) -> None:
    """Read one streamed answer to its end; anything but a whole answer raises."""
    async with session.post(url, json=body) as response:
        if response.status != 200:
            raise RuntimeError(f"HTTP {response.status}: {(await response.text())[:200]}")
        async for raw in response.content:
            read_chunk(raw, record)
    if not record.get("tokens"):
        raise RuntimeError("the stream ended without a usage chunk")


def read_chunk(raw: bytes, record: dict[str, Any]) -> None:
    """Take what one line of the event stream says."""
    if not raw.startswith(b"data: ") or raw.startswith(b"data: [DONE]"):
        return
    chunk = json.loads(raw[6:])
    if "error" in chunk:
        raise RuntimeError(str(chunk["error"])[:200])
    record.setdefault("first", time.time())
    if usage := chunk.get("usage"):
        record["tokens"] = usage["completion_tokens"]
    details = (chunk.get("sglext") or {}).get("spec_tokens_details")
    if details := details[0] if isinstance(details, list) else details:
        record["calls"], record["drafts"] = details["spec_verify_ct"], details["spec_num_correct_drafts"]


async def watch(session: aiohttp.ClientSession, host: str, stopped: asyncio.Event) -> None:
    """Note what the engines' agents say, twice a second."""
    while not stopped.is_set():
        for address in await addresses(host):
            with contextlib.suppress(aiohttp.ClientError, TimeoutError):
                async with session.get(
                    f"http://{address}:{AGENT_PORT}/status", timeout=aiohttp.ClientTimeout(total=1)
                ) as response:
                    say(kind="status", at=time.time(), address=address, status=await response.json())
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stopped.wait(), 0.5)


async def addresses(host: str) -> list[str]:
    """Resolve the headless Service to its pods' addresses."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, AGENT_PORT, type=socket.SOCK_STREAM)
    except OSError:
        return []
    return sorted({str(entry[4][0]) for entry in found})


async def main() -> int:
    """Send requests until told to stop; the exit status says whether one failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", required=True)
    parser.add_argument("--agents", required=True, help="host name of the headless Service")
    parser.add_argument("--model", required=True)
    parser.add_argument("--rate", type=float, default=1.5, help="requests per second")
    parser.add_argument("--tokens", type=int, default=12)
    parser.add_argument("--seconds", type=float, default=1800, help="stops by itself after so long")
    options = parser.parse_args()
    stopped = asyncio.Event()
    for name in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(name, stopped.set)
    begin, number, running = time.monotonic(), 0, set()
    # A connection for each request: the Service deals connections, and users have connections of their own.
    connector = aiohttp.TCPConnector(force_close=True)
    async with aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=60)) as session:
        watcher = asyncio.create_task(watch(session, options.agents, stopped))
        while not stopped.is_set() and number / options.rate < options.seconds:
            task = asyncio.create_task(ask(session, options.url, options.model, number, options.tokens))
            running.add(task)
            number += 1
            pause = begin + number / options.rate - time.monotonic()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stopped.wait(), max(pause, 0))
        stopped.set()
        answers = await asyncio.gather(*running)
        await watcher
    say(kind="end", requests=len(answers), failed=answers.count(False))
    return 1 if answers.count(False) else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
