"""The agent's own requests on the real engine: token ids of a chat, and how far a token is below the best."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from tests.support.engine import Engine, models

from specdec.engine.agent.equality import LEAST_TOLERANCE, tolerance
from specdec.engine.agent.launch import Secrets
from specdec.engine.agent.loopback_client import Loopback, RequestFailedError
from specdec.engine.agent.prompts import image

pytestmark = pytest.mark.engine


@pytest.fixture
async def loopback(engine: Engine) -> AsyncIterator[Loopback]:
    secrets = Secrets(loopback=engine.secret, probe_prefix=engine.probe_prefix)
    made = Loopback(engine.run_dir, engine.port, secrets, str(models()["kimi"]))
    yield made
    await made.close()


async def test_a_chat_answers_with_its_token_ids_and_its_text(loopback: Loopback):
    reply = await loopback.chat("What is 17 times 24?", max_tokens=32, seconds=60)
    assert len(reply.tokens) == 32
    assert len(reply.prompt) >= len("What is 17 times 24?")
    assert reply.text


async def test_a_request_with_an_image_has_the_form_that_sglang_reads(loopback: Loopback):
    # SGLang finds the image; the tiny target's chat template has no place for it.
    with pytest.raises(RequestFailedError, match="placeholders must map one-to-one to image data") as failed:
        await loopback.chat("What is this?", max_tokens=4, seconds=60, image=image())
    assert failed.value.status == 400


async def test_a_greedy_answers_own_tokens_are_the_best_and_another_is_far_below(loopback: Loopback):
    reply = await loopback.chat("Name three rivers.", max_tokens=24, seconds=60)
    own = await loopback.below_best(reply.prompt, reply.tokens, seconds=60)
    assert len(own) == 24
    assert max(own) < LEAST_TOLERANCE
    place = 11
    other = (*reply.tokens[:place], (reply.tokens[place] + 5) % 250)
    scored = await loopback.below_best(reply.prompt, other, seconds=60)
    assert max(scored[:place]) < LEAST_TOLERANCE
    assert scored[place] > 2 * tolerance(own)


async def test_an_empty_answer_needs_no_scoring(loopback: Loopback):
    assert await loopback.below_best((5, 6, 7), (), seconds=60) == ()
