"""A target that sees, on the real engine: the warm-up's picture, and users'."""

from __future__ import annotations

import base64
import io
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import Image, ImageOps
from tests.support.agentpod import AgentPod
from tests.support.engine import EngineSlot, models, seeing
from tests.support.enginepod import engine_pod, traffic
from tests.support.models import answer
from tests.support.models.vision import BLUE, RED

from specdec.engine.agent.prompts import image

pytestmark = [pytest.mark.engine, pytest.mark.timeout(240)]

TOKENS = 24


@pytest.fixture
def pod(slot: EngineSlot) -> Iterator[AgentPod]:
    slot.clear()
    drafters = models()["kimi"].parent
    target = seeing()
    with tempfile.TemporaryDirectory(prefix="pod-") as folder, engine_pod(Path(folder), drafters) as made:
        made.write_plan("good", target_path=str(target))
        made.start()
        yield made


def upside_down(picture: str) -> str:
    """Turn the picture of a data URL over."""
    head, _, data = picture.partition(",")
    turned = io.BytesIO()
    ImageOps.flip(Image.open(io.BytesIO(base64.b64decode(data)))).save(turned, "png")
    return f"{head},{base64.b64encode(turned.getvalue()).decode()}"


def asked(pod: AgentPod, picture: str) -> list[int]:
    """Ask as a user does about a picture; returns the answer's token ids."""
    parts = [{"type": "text", "text": "What is this?"}, {"type": "image_url", "image_url": {"url": picture}}]
    messages = [{"role": "user", "content": parts}]
    code, body = pod.chat("", TOKENS, messages=messages, return_token_ids=True)
    assert code == 200, body
    found: list[int] = json.loads(body)["choices"][0]["response_token_ids"]
    return found


def test_an_image_passes_through_the_vision_tower_and_drafts_of_its_answer_are_kept(pod):
    status = pod.wait_serving()
    assert status.warmup.images
    assert status.warmup.message == ""
    assert traffic(status, "r-good") == (0, 0)
    # The agent's picture is blue below. Only the tower's own output can tell the two apart.
    assert asked(pod, image()) == answer(BLUE, TOKENS)
    assert asked(pod, upside_down(image())) == answer(RED, TOKENS)
    calls, correct = traffic(pod.status(), "r-good")
    assert correct == 3 * calls > 0
