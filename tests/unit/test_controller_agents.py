"""The agents' HTTP, against a small server: signed commands, long polls, and answers that are not understood."""

from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tests.support.controllerparts import status

from specdec.controller import agents as module
from specdec.controller.agents import STATUS_BYTES, AgentError, HttpAgents, url
from specdec.engine.protocol import Answer, Envelope, Rollback
from specdec.engine.signing import public_key, verify

KEY = Ed25519PrivateKey.generate()
ROLLBACK = Envelope(assignment=3, epoch=7, command=Rollback(revision="r2", reason="BelowFloor"))


class Agent:
    """Says what the test wants, in pieces."""

    def __init__(self) -> None:
        self.body = status().model_dump_json(by_alias=True).encode()
        self.code = 200
        self.asked: list[tuple[str, str, bytes]] = []

    async def answer(self, request: web.Request) -> web.StreamResponse:
        token = request.headers.get("Authorization", "")
        self.asked.append((request.path_qs, token, await request.read()))
        answer = web.StreamResponse(status=self.code)
        await answer.prepare(request)
        half = len(self.body) // 2
        for piece in (self.body[:half], self.body[half:]):
            await answer.write(piece)
        return answer


@pytest.fixture
async def pair(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[Agent, HttpAgents]]:
    agent = Agent()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", agent.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    monkeypatch.setattr(module, "AGENT_PORT", runner.addresses[0][1])
    async with aiohttp.ClientSession() as session:
        yield agent, HttpAgents(session, KEY)
    await runner.cleanup()


async def test_a_status_that_comes_in_pieces_is_read_whole(pair: tuple[Agent, HttpAgents]):
    _, agents = pair
    assert await agents.status("127.0.0.1") == status()


async def test_a_long_poll_names_what_was_seen(pair: tuple[Agent, HttpAgents]):
    agent, agents = pair
    await agents.status("127.0.0.1", since=4, wait=0.5)
    assert agent.asked[0][0] == "/status?since=4&wait=0.5"


async def test_a_command_is_signed_for_its_pod_and_body(pair: tuple[Agent, HttpAgents]):
    agent, agents = pair
    agent.body = Answer(accepted=True).model_dump_json(by_alias=True).encode()
    assert (await agents.command("127.0.0.1", "pod-uid", ROLLBACK)).accepted
    ((path, token, body),) = agent.asked
    assert path == "/commands"
    assert Envelope.model_validate_json(body) == ROLLBACK
    verify(token.removeprefix("Bearer "), (public_key(KEY),), pod_uid="pod-uid", body=body)


async def test_a_refusal_is_an_answer(pair: tuple[Agent, HttpAgents]):
    agent, agents = pair
    agent.code = 409
    agent.body = Answer(accepted=False, reason="StaleEpoch").model_dump_json(by_alias=True).encode()
    assert (await agents.command("127.0.0.1", "pod-uid", ROLLBACK)).reason == "StaleEpoch"


@pytest.mark.parametrize(
    ("code", "body", "words"),
    [
        (200, b"{}", "not understood"),
        (200, b"not json", "not understood"),
        (503, b"busy", "503"),
        (200, b"x" * (STATUS_BYTES + 1), "more than 4096 bytes"),
    ],
)
async def test_what_is_no_status_is_an_error_with_a_sentence(
    pair: tuple[Agent, HttpAgents], code: int, body: bytes, words: str
):
    agent, agents = pair
    agent.code, agent.body = code, body
    with pytest.raises(AgentError, match=words):
        await agents.status("127.0.0.1")


@pytest.mark.parametrize(
    ("address", "expected"),
    [("10.0.0.1", "http://10.0.0.1:8701/status"), ("fd00::1", "http://[fd00::1]:8701/status")],
)
def test_addresses_of_both_families_make_urls(address: Any, expected: str):
    assert url(address, "status") == expected
