"""The tiny models: what they promise is what their weights say."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file
from tests.support.models import NAMES, answer, expected_accept_length, make, simulate
from tests.support.models.codes import DEFAULT_CAPTURE, FIRST_TEXT, SIGMA, TAU, WIDTH, power
from tests.support.models.drafter import DrafterShape, weights, wrong_ids


@pytest.mark.parametrize("quality", [1.0, 0.7, 0.4, 0.0])
def test_the_simulated_accept_length_over_the_cycle_is_the_expected_one(quality: float):
    calls = [drafts for start in range(FIRST_TEXT, WIDTH) for drafts in simulate(start, 60, quality)]
    assert 1 + sum(calls) / len(calls) == pytest.approx(expected_accept_length(quality), abs=0.15)


@pytest.mark.parametrize("quality", [1.0, 0.7, 0.0])
def test_a_drafter_is_right_on_exactly_its_share_of_tokens(quality: float):
    tensors = weights(DrafterShape(quality=quality))
    head = tensors["lm_head.weight"].astype(np.float32)
    to_target = tensors["d2t"] + np.arange(len(tensors["d2t"]))
    wrong = set(wrong_ids(quality).tolist())
    for token in range(FIRST_TEXT, WIDTH):
        foretold = to_target[int(np.argmax(head[:, token]))]
        assert (foretold == SIGMA[token]) == (int(SIGMA[token]) not in wrong)


def test_fc_leads_the_captured_codes_back_to_the_token():
    fc = weights(DrafterShape())["fc.weight"].astype(np.float32)
    token = 77
    captured = np.zeros((len(DEFAULT_CAPTURE), WIDTH), np.float32)
    for row, depth in enumerate(DEFAULT_CAPTURE):
        captured[row, power(TAU, depth)[token]] = 1
    assert int(np.argmax(fc @ captured.reshape(-1))) == token


def test_an_answer_never_meets_a_special_token_and_visits_all_others():
    assert sorted(answer(FIRST_TEXT, WIDTH - FIRST_TEXT)) == list(range(FIRST_TEXT, WIDTH))


def test_every_model_is_readable_by_another_user(tmp_path: Path):
    folders = make(tmp_path / "models")
    assert tuple(folders) == NAMES
    for folder in folders.values():
        assert folder.stat().st_mode & 0o055 == 0o055
        assert all(path.stat().st_mode & 0o044 == 0o044 for path in folder.iterdir())
        assert json.loads((folder / "config.json").read_text())["architectures"]
        assert load_file(folder / "model.safetensors")
