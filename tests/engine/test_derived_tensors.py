"""What SGLang computes of an MLA drafter's weights, by SGLang's own class; the CPU engine can't serve one."""

from __future__ import annotations

import json
import os
import subprocess

import pytest
from tests.support.engine import PROFILE, PYTHON, ROOT

pytestmark = pytest.mark.engine

IMPORTS = """
import json
import sys
import traceback
import torch
from sglang.srt.models.kimi_k25_eagle3 import Eagle3DeepseekV2ForCausalLM as Drafter
from specdec.engine.plugin import derived, shadow

def drafter():
    model = Drafter.__new__(Drafter)
    torch.nn.Module.__init__(model)
    model.model = torch.nn.Module()
    model.model.midlayer = torch.nn.Module()
    attention = model.model.midlayer.self_attn = torch.nn.Module()
    attention.qk_nope_head_dim, attention.v_head_dim = 4, 8
    attention.kv_b_proj = torch.nn.Linear(16, 3 * (4 + 8), bias=False, dtype=torch.bfloat16)
    attention.kv_b_proj.weight.requires_grad_(False)
    model.post_load_weights()
    return model, attention
"""
DRAFTER = """
model, attention = drafter()
held = attention.w_kc, attention.w_vc
places = [tensor.data_ptr() for tensor in held]
before = [tensor.clone() for tensor in held]
new = torch.randn_like(attention.kv_b_proj.weight)
"""
SCRIPTS = {
    "renewed": """
attention.kv_b_proj.weight.copy_(new)
derived.refresh(model)
assert attention.w_kc is held[0] and attention.w_vc is held[1] and [tensor.data_ptr() for tensor in held] == places
model.post_load_weights()
assert torch.equal(held[0], attention.w_kc) and torch.equal(held[1], attention.w_vc)
assert not torch.equal(held[0], before[0])
""",
    "left": """
buffer = torch.empty(shadow.size(model, frozenset()), dtype=torch.uint8)
made = shadow.make(model, frozenset(), buffer)
Drafter.load_weights(made.view, [("midlayer.self_attn.kv_b_proj.weight", new)])
assert torch.equal(made.clones["model.midlayer.self_attn.kv_b_proj.weight"], new)
assert attention.w_kc is held[0] and attention.w_vc is held[1]
assert torch.equal(held[0], before[0]) and not torch.equal(attention.kv_b_proj.weight, new)
""",
    "refused": """
attention.qk_nope_head_dim, attention.v_head_dim = 8, 4
try:
    derived.refresh(model)
except ValueError as error:
    assert "w_kc" in str(error)
else:
    raise AssertionError("it was taken")
assert attention.w_kc is held[0] and attention.w_vc is held[1] and torch.equal(held[0], before[0])
""",
}
ALL = """
said = {}
for name, script in json.load(sys.stdin).items():
    try:
        exec(script, dict(globals()))
        said[name] = ""
    except BaseException:
        said[name] = traceback.format_exc()
json.dump(said, sys.stdout)
"""


@pytest.fixture(scope="module")
def said() -> dict[str, str]:
    """What went wrong in each script, each with a drafter of its own; one process runs all, since importing SGLang takes the time."""
    environment = {
        **os.environ,
        **json.loads(PROFILE.read_text())["env"],
        "PYTHONPATH": str(ROOT / "operator"),
    }
    scripts = json.dumps({name: DRAFTER + script for name, script in SCRIPTS.items()})
    done = subprocess.run(
        [str(PYTHON), "-c", IMPORTS + ALL],
        env=environment, input=scripts, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_they_are_renewed_where_captured_graphs_read_them(said: dict[str, str]):
    assert said["renewed"] == ""


def test_staging_another_drafter_leaves_those_that_serve(said: dict[str, str]):
    assert said["left"] == ""


def test_one_of_another_shape_is_refused_and_the_old_one_stays(said: dict[str, str]):
    assert said["refused"] == ""
