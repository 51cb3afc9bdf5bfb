"""The agent's API, in a thread and an event loop of its own: nothing that supervises can starve `/live`."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import threading
import time
from typing import TYPE_CHECKING, Annotated

import uvicorn
from fastapi import FastAPI, Query, Request, Response
from pydantic import ValidationError

from specdec.engine.agent.board import fitted, with_report
from specdec.engine.agent.commands import refused
from specdec.engine.agent.loopback_client import EngineUnreachableError, read_report
from specdec.engine.protocol import Envelope, Phase
from specdec.engine.signing import SignatureRefusedError, body_hash, verify

if TYPE_CHECKING:
    import socket

    from specdec.engine.agent.settings import Settings
    from specdec.engine.agent.supervisor import Supervisor
    from specdec.engine.loopback import Report
    from specdec.engine.protocol import Answer

log = logging.getLogger("specdec.agent")

BODY_BYTES = 64 << 10
BODY_SECONDS = 5.0
TAKE_SECONDS = 10.0
LONGEST_WAIT = 30.0
REPORT_SECONDS = 0.5
"""A status must not wait for a busy scheduler: it then shows the counters of the answer before."""


def build_app(supervisor: Supervisor, main_loop: asyncio.AbstractEventLoop) -> FastAPI:
    """Make the web app; commands are handed to the supervising loop."""
    app = FastAPI(title="specdec agent", docs_url=None, redoc_url=None, openapi_url=None)
    api = Api(supervisor, main_loop)
    open_to_all = {"/live": api.live, "/ready": api.ready, "/status": api.status, "/preflight": api.preflight}
    for path, answer in open_to_all.items():
        app.add_api_route(path, answer, methods=["GET"], response_model=None)
    app.add_api_route("/commands", api.commands, methods=["POST"], response_model=None)
    app.add_exception_handler(Exception, _failed)
    return app


class Api:
    """What each route answers."""

    def __init__(self, supervisor: Supervisor, main_loop: asyncio.AbstractEventLoop) -> None:
        self._supervisor = supervisor
        self._main_loop = main_loop
        self._reports = LatestReport(supervisor.settings)

    async def live(self) -> Response:
        """Tell the kubelet whether restarting the container would help."""
        ok = self._supervisor.vitals.live(time.monotonic())
        return _text(200 if ok else 503, "alive" if ok else "SGLang is dead and nothing restarts it")

    async def ready(self) -> Response:
        """Tell the kubelet whether users' requests may come."""
        phase = self._supervisor.board.status.phase
        return _text(200 if phase is Phase.SERVING else 503, phase.value)

    async def status(
        self,
        since: Annotated[int | None, Query()] = None,
        wait: Annotated[float, Query(ge=0, le=LONGEST_WAIT)] = 0,
    ) -> Response:
        """Tell the operator everything, as soon as the serial differs from `since`."""
        if since is not None and wait:
            await self._supervisor.board.wait(since, wait)
        now = self._supervisor.board.status
        written = fitted(with_report(now, await self._reports.read(now.boot)))
        return Response(written, media_type="application/json")

    async def preflight(self, revision: Annotated[str, Query(max_length=63)] = "") -> Response:
        """Tell the operator what was found of a revision; without one tell people all of the drafters judged last."""
        reports = self._supervisor.board.reports
        if not revision:
            whole = {name: report.to_json() for name, (_, report) in reports.items()}
            return Response(json.dumps(whole), media_type="application/json")
        if revision not in reports:
            return _text(404, "not judged since this agent was started")
        found, _ = reports[revision]
        return Response(found.model_dump_json(by_alias=True), media_type="application/json")

    async def commands(self, request: Request) -> Response:
        """Take one signed command."""
        body = await _body(request)
        if body is None:
            return _answer(
                413, refused("BodyTooLarge", f"the body has over {BODY_BYTES} bytes or is too slow")
            )
        token = request.headers.get("authorization", "").removeprefix("Bearer ")
        try:
            verify(token, self._supervisor.public_keys, pod_uid=self._supervisor.settings.pod_uid, body=body)
            envelope = Envelope.model_validate_json(body)
        except SignatureRefusedError as refusal:
            return _answer(401, refused("SignatureRefused", str(refusal)))
        except ValidationError as error:
            return _answer(400, refused("CommandMalformed", _malformed(error)))
        work = self._supervisor.take(envelope, body_hash(body))
        taking = asyncio.run_coroutine_threadsafe(work, self._main_loop)
        try:
            answer = await asyncio.wait_for(asyncio.wrap_future(taking), TAKE_SECONDS)
        except TimeoutError:
            late = f"the agent did not decide within {TAKE_SECONDS:.0f} s: send it again"
            return _answer(503, refused("AgentBusy", late))
        return _answer(200 if answer.accepted else 409, answer)


class LatestReport:
    """The plugin's report for the status; the last one of the same start stands in for one that is late."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._last: tuple[str, Report] | None = None

    async def read(self, boot: str) -> Report | None:
        """Ask the plugin of this start, shortly."""
        if not boot:
            return None
        try:
            report = await read_report(self._settings.run_dir / boot, seconds=REPORT_SECONDS)
        except EngineUnreachableError:
            return self._last[1] if self._last and self._last[0] == boot else None
        self._last = (boot, report)
        return report


class ApiServer:
    """uvicorn in a daemon thread."""

    def __init__(self, app: FastAPI, listening: socket.socket) -> None:
        config = uvicorn.Config(
            app, log_level="warning", access_log=False, lifespan="off", timeout_keep_alive=15,
            log_config=None, server_header=False,
        )  # fmt: skip
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [listening]}, name="api", daemon=True
        )

    def start(self) -> None:
        """Serve from now on."""
        self._thread.start()

    def stop(self, seconds: float = 1.0) -> None:
        """Stop serving; long polls are cut off."""
        self._server.should_exit = True
        self._server.force_exit = True
        self._thread.join(seconds)


async def _body(request: Request) -> bytes | None:
    """Read a body of limited size in limited time."""
    body = bytearray()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(BODY_SECONDS):
            async for chunk in request.stream():
                body += chunk
                if len(body) > BODY_BYTES:
                    return None
            return bytes(body)
    return None


def _text(status: int, text: str) -> Response:
    return Response(text + "\n", status, media_type="text/plain")


def _answer(status: int, answer: Answer) -> Response:
    return Response(answer.model_dump_json(by_alias=True), status, media_type="application/json")


def _malformed(error: ValidationError) -> str:
    first = error.errors(include_input=False, include_url=False)[0]
    place = ".".join(str(part) for part in first["loc"]) or "body"
    return f"{place}: {first['msg']}; do operator and agent differ in version?"


async def _failed(request: Request, error: Exception) -> Response:
    log.error("%s %s failed", request.method, request.url.path, exc_info=error)
    return _answer(500, refused("InternalError", "the agent failed on this request: see its log"))
