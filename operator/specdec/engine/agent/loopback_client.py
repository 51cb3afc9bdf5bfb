"""Speaking to SGLang and our plugin inside the pod: reports, orders, the agent's own chat requests."""

from __future__ import annotations

import asyncio
import importlib
import itertools
import json
import logging
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from pydantic import ValidationError

from specdec.engine.agent.plan import write_whole
from specdec.engine.loopback import COMMAND_KEY, SECRET_HEADER, Report

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import aiohttp

    from specdec.engine.agent.launch import Secrets
    from specdec.engine.loopback import Commit, Outcome, Stage, Steps

log = logging.getLogger("specdec.agent")

REPORT_SECONDS = 5.0
ORDER_SECONDS = 20.0
"""SGLang applies an order between two batches: this is many times the longest batch."""
FREEZE_SECONDS = 10.0
REPORT_BYTES = 1 << 20
POLL_SECONDS = 0.02


WATCH_SECONDS = 5.0
"""SGLang writes a line into its log for each look."""
SILENT_SECONDS = 30.0
"""An engine of which no part answers for so long serves nobody: stopped, deadlocked, or hung in the driver."""


class EngineUnreachableError(Exception):
    """SGLang or the plugin did not answer in time."""


class OrderRefusedError(Exception):
    """The plugin refused an order; the old drafter keeps serving."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class RequestFailedError(Exception):
    """SGLang answered one of the agent's own requests with an error."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status
        """HTTP status of the answer; 0 where that is no matter."""


@dataclass(frozen=True)
class Reply:
    """One answer to a chat request of the agent's own."""

    text: str
    """All of it, reasoning included."""
    prompt: tuple[int, ...] = ()
    """Token ids after the chat template; empty where SGLang returns none."""
    tokens: tuple[int, ...] = ()
    """Token ids of the answer."""


async def read_report(run_dir: Path, rank: int = 0, *, seconds: float = REPORT_SECONDS) -> Report:
    """Ask the plugin of one rank what it sees.

    Raises
    ------
    EngineUnreachableError
        There is no such socket, or no whole report in time.
    """
    path = run_dir / f"scheduler-{rank}.sock"
    try:
        async with asyncio.timeout(seconds):
            reader, writer = await asyncio.open_unix_connection(str(path), limit=REPORT_BYTES)
            try:
                line = await reader.readline()
            finally:
                writer.close()
        return Report.model_validate_json(line)
    except (OSError, TimeoutError, ValueError, ValidationError) as error:
        raise EngineUnreachableError(
            f"{path.name} gave no report within {seconds:.1f} s ({type(error).__name__}): is SGLang's scheduler alive?"
        ) from error


class Loopback:
    """One start of SGLang, as its agent reaches it."""

    def __init__(self, run_dir: Path, port: int, secrets: Secrets, served_name: str) -> None:
        self.run_dir = run_dir
        self._base = f"http://127.0.0.1:{port}"
        self._secrets = secrets
        self._model = served_name
        self._orders = itertools.count(1)
        self._requests = itertools.count(1)
        self._opened: aiohttp.ClientSession | None = None
        # Nobody is there to speak to yet: the agent's own start, which comes first, does not wait for this import.
        threading.Thread(target=importlib.import_module, args=("aiohttp",), daemon=True).start()

    @property
    def _session(self) -> aiohttp.ClientSession:
        import aiohttp

        if self._opened is None:
            self._opened = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=8))
        return self._opened

    async def close(self) -> None:
        """Close the connections."""
        if self._opened is not None:
            await self._opened.close()

    async def report(self) -> Report:
        """Ask rank 0, which counts."""
        return await read_report(self.run_dir)

    async def answers(self) -> bool:
        """Say whether SGLang's web app answers at all."""
        import aiohttp

        try:
            async with self._session.get(
                f"{self._base}/v1/models", timeout=aiohttp.ClientTimeout(total=2)
            ) as response:
                return response.status == 200
        except (aiohttp.ClientError, TimeoutError):
            return False

    async def order(self, order: Stage | Commit | Steps) -> int:
        """Give an order to every rank; it is in force once this returns, except for a Stage.

        Raises
        ------
        EngineUnreachableError
            SGLang did not take it in time.
        """
        number = next(self._orders)
        folder = self.run_dir / "commands"
        await asyncio.to_thread(folder.mkdir, exist_ok=True)
        content = order.model_dump_json(by_alias=True).encode()
        await asyncio.to_thread(write_whole, folder / f"{number}.json", content)
        status, text = await self._post(
            "/set_internal_state",
            {"server_args": {COMMAND_KEY: number}},
            headers={SECRET_HEADER: self._secrets.loopback},
            seconds=ORDER_SECONDS,
        )
        if status != 200:
            raise EngineUnreachableError(
                f"SGLang answered {status} to order {number} ({order.op}), expected 200: {text[:200]}"
            )
        return number

    async def settled(self, number: int, *, seconds: float) -> Outcome:
        """Wait for what became of an order on all ranks, and return what rank 0 says.

        Raises
        ------
        OrderRefusedError
            The plugin refused it.
        EngineUnreachableError
            It did not settle in time.
        """
        try:
            async with asyncio.timeout(seconds):
                outcome, *_ = [await self._settled_on(rank, number) for rank in self._ranks()]
                return outcome
        except TimeoutError as error:
            raise EngineUnreachableError(
                f"order {number} did not settle within {seconds:.0f} s: is the volume or the engine stuck?"
            ) from error

    def _ranks(self) -> list[int]:
        """Tensor-parallel ranks of this start: all sockets are there before SGLang serves."""
        found = (int(path.stem.partition("-")[2]) for path in self.run_dir.glob("scheduler-*.sock"))
        return sorted({0, *found})

    async def _settled_on(self, rank: int, number: int) -> Outcome:
        """Wait for one rank. Each stages at its own pace, and all refuse a commit that comes before the last is done."""
        while True:
            report = await read_report(self.run_dir, rank)
            outcome = next((one for one in report.outcomes if one.number == number), None)
            if outcome is not None and outcome.state == "refused":
                raise OrderRefusedError(outcome.reason, outcome.message)
            if outcome is not None and outcome.state == "done":
                return outcome
            await asyncio.sleep(POLL_SECONDS)

    async def chat(self, prompt: str, *, max_tokens: int, seconds: float, image: str = "") -> Reply:
        """Send one greedy chat request of the agent's own, with an image if a data URL of one is given.

        Raises
        ------
        RequestFailedError
            SGLang answered with an error or with something else than a chat completion.
        EngineUnreachableError
            SGLang did not answer in time.
        """
        picture = {"type": "image_url", "image_url": {"url": image}}
        content = [{"type": "text", "text": prompt}, picture] if image else prompt
        body = {
            "messages": [{"role": "user", "content": content}],
            "model": self._model,
            "max_tokens": max_tokens,
            "temperature": 0,
            # Else the model's generation_config may bring one, and verification is not exact under it.
            "repetition_penalty": 1.0,
            "return_token_ids": True,
            "rid": self._own(),
        }
        status, text = await self._post("/v1/chat/completions", body, headers={}, seconds=seconds)
        if status != 200:
            raise RequestFailedError(
                f"SGLang answered {status} to a probe, expected 200: {text[:200]}", status
            )
        try:
            choice: dict[str, Any] = json.loads(text)["choices"][0]
            message: dict[str, Any] = choice["message"]
        except (ValueError, KeyError, IndexError, TypeError) as error:
            raise RequestFailedError(
                f"SGLang's answer to a probe is no chat completion: {text[:200]}"
            ) from error
        return Reply(
            f"{message.get('reasoning_content') or ''}{message.get('content') or ''}",
            tuple(choice.get("prompt_token_ids") or ()),
            tuple(choice.get("response_token_ids") or ()),
        )

    async def below_best(
        self, prompt: tuple[int, ...], answer: tuple[int, ...], *, seconds: float
    ) -> tuple[float, ...]:
        """Say how far each token of an answer is below the target's best one, in nats, as one prefill scores it.

        Raises
        ------
        RequestFailedError
            SGLang answered with an error or without log-probabilities.
        EngineUnreachableError
            SGLang did not answer in time.
        """
        if not answer:
            return ()
        body = {
            "input_ids": [*prompt, *answer],
            "sampling_params": {"max_new_tokens": 1, "temperature": 0},
            "return_logprob": True,
            "logprob_start_len": max(0, len(prompt) - 1),
            "top_logprobs_num": 1,
            "rid": self._own(),
        }
        status, text = await self._post(
            "/generate", body, headers={SECRET_HEADER: self._secrets.loopback}, seconds=seconds
        )
        try:
            meta = json.loads(text)["meta_info"]
            emitted = meta["input_token_logprobs"][-len(answer) :]
            best = meta["input_top_logprobs"][-len(answer) :]
            return tuple(top[0][0] - own[0] for top, own in zip(best, emitted, strict=True))
        except (ValueError, KeyError, IndexError, TypeError) as error:
            raise RequestFailedError(
                f"SGLang answered {status} without log-probabilities of a prompt: {text[:200]}"
            ) from error

    async def freeze_gc(self) -> None:
        """Spare SGLang's processes the search for cycles among all that stays for good, as SGLang does after its own warm-up.

        Its own call meets a closed route. An engine without it only pauses a little longer now and then.
        """
        try:
            status, text = await self._post(
                "/freeze_gc", {}, headers={SECRET_HEADER: self._secrets.loopback}, seconds=FREEZE_SECONDS
            )
        except EngineUnreachableError as error:
            log.warning("SGLang's garbage collection goes on as it was: %s", error)
            return
        if status != 200:
            log.warning("SGLang answered %d to /freeze_gc, expected 200: %s", status, text[:200])

    def _own(self) -> str:
        """Name a request as the agent's own."""
        return f"{self._secrets.probe_prefix}{next(self._requests)}"

    async def _post(
        self, path: str, body: dict[str, Any], *, headers: dict[str, str], seconds: float
    ) -> tuple[int, str]:
        import aiohttp

        timeout = aiohttp.ClientTimeout(total=seconds)
        try:
            async with self._session.post(
                self._base + path, json=body, headers=headers, timeout=timeout
            ) as response:
                return response.status, await response.text(errors="replace")
        except (aiohttp.ClientError, TimeoutError) as error:
            raise EngineUnreachableError(
                f"SGLang did not answer {path} within {seconds:.0f} s ({type(error).__name__}): is it alive and idle enough?"
            ) from error


async def watch(loopback: Loopback, clock: Callable[[], float] = time.monotonic) -> NoReturn:
    """Ask the web app and the scheduler of a serving engine again and again, as long as both answer.

    Raises
    ------
    EngineUnreachableError
        One of them was silent for too long, though its process runs: only a restart helps.
    """
    heard = clock()
    while True:
        silent = "" if await loopback.answers() else "web app"
        try:
            await loopback.report()
        except EngineUnreachableError:
            silent = silent or "scheduler"
        if not silent:
            heard = clock()
        elif clock() - heard > SILENT_SECONDS:
            raise EngineUnreachableError(
                f"SGLang's {silent} gave no answer for {clock() - heard:.0f} s, expected one within {SILENT_SECONDS:.0f} s: "
                "its process hangs or is stopped, so it is started again"
            )
        await asyncio.sleep(WATCH_SECONDS)
