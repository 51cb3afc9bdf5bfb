"""Which routes of the engine users reach."""

from __future__ import annotations

import json

import pytest
from tests.support.engine import Engine

pytestmark = pytest.mark.engine

CLOSED = (
    "/server_info",
    "/get_server_info",
    "/flush_cache",
    "/set_internal_state",
    "/generate",
    "/docs",
    "/",
)


@pytest.mark.parametrize("path", ["/health", "/ready", "/metrics", "/v1/models"])
def test_users_reach(engine: Engine, path: str):
    assert engine.request(path, secret=None)[0] == 200


@pytest.mark.parametrize("path", CLOSED)
@pytest.mark.parametrize("secret", [None, "guess"])
def test_users_do_not_reach(engine: Engine, path: str, secret: str | None):
    status, body = engine.request(path, secret=secret)
    assert status == 403
    assert "closed" in json.loads(body)["error"]["message"]


def test_the_agent_reaches_what_is_closed(engine: Engine):
    assert engine.request("/server_info")[0] == 200


def test_a_chat_request_needs_no_secret(engine: Engine):
    body = {
        "model": "kimi",
        "messages": [{"role": "user", "content": "hello"}],
        "max_tokens": 20,
        "temperature": 0,
    }
    status, answer = engine.request("/v1/chat/completions", body, secret=None)
    assert status == 200
    assert json.loads(answer)["usage"]["completion_tokens"] == 20
