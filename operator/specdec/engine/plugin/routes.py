"""Patch `routes`: users reach what they need, everything else wants the agent's secret.

Symptom: SGLang serves flushing, weight updates, profiling and `/server_info` (which names its keys) on the
port that users talk to; with an admin key set `/server_info` still answers.
Upstream: entrypoints/http_server.py, 0.5.17 to 0.5.23.
In force: `GET /server_info` without the secret answers 403; `RUN_DIR/routes` holds the web process's id.
"""

from __future__ import annotations

import hmac
import json
import os
from collections.abc import Awaitable, Callable, MutableMapping
from pathlib import Path
from typing import Any

from specdec.engine.loopback import SECRET_HEADER
from specdec.engine.plugin.hooks import Hook, Patch
from specdec.engine.plugin.refusal import refuse_start
from specdec.engine.plugin.state import engine

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

OPEN_PATHS = ("/health", "/ready", "/metrics")
OPEN_TREES = ("/v1/", "/metrics/")
MARKER = "routes"
"""File below the run folder: the id of the process that serves with the allow-list."""

_SENTENCE = "This route is closed: the engine is managed by specdec-operator, users reach /v1 and /health."


class RouteAllowList:
    """ASGI middleware: open routes pass, others need the secret."""

    def __init__(self, app: App, secret: str) -> None:
        self._app = app
        self._secret = secret.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve, or refuse."""
        if scope["type"] == "lifespan" or is_open(scope["path"]) or self._knows_secret(scope):
            await self._app(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008, "reason": _SENTENCE})
        else:
            body = json.dumps({"error": {"message": _SENTENCE, "type": "Forbidden", "code": 403}}).encode()
            headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
            await send({"type": "http.response.start", "status": 403, "headers": headers})
            await send({"type": "http.response.body", "body": body})

    def _knows_secret(self, scope: Scope) -> bool:
        return any(
            name == SECRET_HEADER.encode() and hmac.compare_digest(value, self._secret)
            for name, value in scope["headers"]
        )


def is_open(path: str) -> bool:
    """Whether anyone may use a path."""
    return path in OPEN_PATHS or path.startswith(OPEN_TREES)


def serve_closed(original: Any, server_args: Any, *args: Any, **kwargs: Any) -> Any:
    """Around http_server._setup_and_run_http_server: put the allow-list around SGLang's app."""
    settings = engine().settings
    if server_args.tokenizer_worker_num > 1:
        refuse_start(
            settings.run_dir,
            "Unsupported",
            "--tokenizer-worker-num above 1 starts web processes that no plugin reaches: routes stay open",
        )
    from sglang.srt.entrypoints import http_server

    http_server.app.add_middleware(RouteAllowList, secret=settings.secret)
    (settings.run_dir / MARKER).write_text(str(os.getpid()))
    return original(server_args, *args, **kwargs)


def closed_by(run_dir: Path, web_process: int) -> bool:
    """Whether that process serves with the allow-list."""
    try:
        return (run_dir / MARKER).read_text() == str(web_process)
    except OSError:
        return False


PATCH = Patch(
    "routes",
    (Hook("sglang.srt.entrypoints.http_server._setup_and_run_http_server", serve_closed, ("server_args",)),),
)
