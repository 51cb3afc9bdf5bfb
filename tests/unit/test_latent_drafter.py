"""The tiny MLA drafter, run in numpy as SGLang runs it: its drafts hang on its own `kv_b_proj`."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes  # noqa: F401 - numpy learns bfloat16 from it
import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors.numpy import load_file
from tests.support.models import KIMI_LATENT, DrafterShape, latent_drafter, simulate
from tests.support.models.codes import FIRST_TEXT, HEADS, SIGMA, WIDTH

Floats = NDArray[np.float64]
SIZES = KIMI_LATENT
# softmax scale with yarn's factor 4
SCALE = (SIZES.nope + SIZES.rope) ** -0.5 * (0.1 * np.log(4) + 1) ** 2
KV_B = "midlayer.self_attn.kv_b_proj.weight"


def norm(x: Floats) -> Floats:
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6)


def draft(weights: dict[str, Floats], newest: list[int], state: Floats) -> tuple[int, Floats]:
    """One draft step over the newest tokens so far, from the state before the last of them."""
    inner = {name.split("self_attn.")[1]: tensor for name, tensor in weights.items() if "self_attn." in name}
    codes = np.eye(WIDTH)[newest]
    read = np.concatenate([norm(codes), np.zeros_like(codes)], axis=1)
    latent = norm((read @ inner["kv_a_proj_with_mqa.weight"].T)[:, : SIZES.kv_rank])
    query = norm(read[-1] @ inner["q_a_proj.weight"].T) @ inner["q_b_proj.weight"].T
    both = inner["kv_b_proj.weight"].reshape(HEADS, SIZES.nope + SIZES.value, SIZES.kv_rank)
    found = []
    for head, asked in enumerate(query.reshape(HEADS, -1)[:, : SIZES.nope]):
        score = latent @ both[head, : SIZES.nope].T @ asked * SCALE
        share = np.exp(score - score.max())
        found.append(share / share.sum() @ (latent @ both[head, SIZES.nope :].T))
    state = state + np.concatenate(found) @ inner["o_proj.weight"].T
    best = int((weights["lm_head.weight"] @ norm(state)).argmax())
    return best + int(weights["d2t"][best]), state


def correct_drafts(weights: dict[str, Floats], prompt: list[int], tokens: int) -> list[int]:
    text, calls = [*prompt, int(SIGMA[prompt[-1]])], []
    while len(text) - len(prompt) < tokens:
        newest, state, correct = text[1:], np.eye(WIDTH)[text[-2]], 0
        for _ in range(3):
            guess, state = draft(weights, newest, state)
            if guess != int(SIGMA[newest[-1]]):
                break
            newest, correct = [*newest, guess], correct + 1
        for _ in range(correct + 1):
            text.append(int(SIGMA[text[-1]]))
        calls.append(correct)
    return calls


def loaded(folder: Path, quality: float, slots: int, first: int) -> dict[str, Floats]:
    latent_drafter(folder, DrafterShape(quality=quality, first_draft_id=first), slots=slots)
    return {
        name: tensor.astype(np.float64) for name, tensor in load_file(folder / "model.safetensors").items()
    }


@pytest.mark.parametrize(
    ("quality", "slots", "first"), [(1.0, 0, FIRST_TEXT), (0.7, 1, FIRST_TEXT), (0.4, 2, 100)]
)
def test_its_drafts_are_as_computed(tmp_path: Path, quality: float, slots: int, first: int):
    weights = loaded(tmp_path, quality, slots, first)
    for number in (0, 5):
        prompt = [FIRST_TEXT + (number * 37 + place * 11) % (WIDTH - FIRST_TEXT) for place in range(10)]
        assert correct_drafts(weights, prompt, 21) == simulate(prompt[-1], 21, quality)


def test_with_another_ones_keys_and_values_hardly_a_draft_is_right(tmp_path: Path):
    weights = loaded(tmp_path / "a", 1.0, 1, FIRST_TEXT)
    weights[KV_B] = loaded(tmp_path / "b", 1.0, 2, FIRST_TEXT)[KV_B]
    prompt = [FIRST_TEXT + place * 11 for place in range(10)]
    calls = correct_drafts(weights, prompt, 21)
    assert sum(calls) <= len(calls) / 4
