"""The allow-list in front of SGLang's web app, without SGLang."""

from __future__ import annotations

from typing import Any

import pytest

from specdec.engine.plugin.routes import RouteAllowList, closed_by, is_open


async def _ask(path: str, headers: list[tuple[bytes, bytes]], kind: str = "http") -> list[dict[str, Any]]:
    sent: list[dict[str, Any]] = []

    async def app(_scope: Any, _receive: Any, send: Any) -> None:
        await send({"type": "passed"})

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        return {}

    await RouteAllowList(app, "s3cret")({"type": kind, "path": path, "headers": headers}, receive, send)
    return sent


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/models/kimi", "/health", "/ready", "/metrics"])
async def test_users_pass_on_open_routes(path: str):
    assert await _ask(path, []) == [{"type": "passed"}]


@pytest.mark.parametrize(
    "path", ["/", "/v1", "/flush_cache", "/health_generate", "/metricsx", "/V1/models", "//v1/models"]
)
def test_other_routes_are_closed(path: str):
    assert not is_open(path)


async def test_the_secret_opens_a_closed_route_and_a_guess_does_not():
    assert await _ask("/flush_cache", [(b"x-specdec-secret", b"s3cret")]) == [{"type": "passed"}]
    start, body = await _ask("/flush_cache", [(b"x-specdec-secret", b"guess")])
    assert start["status"] == 403
    assert b"closed" in body["body"]


async def test_a_closed_websocket_is_closed_and_the_lifespan_passes():
    (close,) = await _ask("/v2/realtime", [], "websocket")
    assert close["type"] == "websocket.close"
    assert await _ask("", [], "lifespan") == [{"type": "passed"}]


def test_only_the_web_process_that_serves_now_counts(tmp_path):
    assert not closed_by(tmp_path, 7)
    (tmp_path / "routes").write_text("7")
    assert closed_by(tmp_path, 7)
    assert not closed_by(tmp_path, 8)
