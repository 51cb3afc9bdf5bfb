"""What an engine with a drafter must not start with, by name."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from specdec.engine.loopback import START_REPORT
from specdec.engine.plugin.settings import Settings
from specdec.engine.plugin.startup import _check_supported
from specdec.engine.plugin.state import Engine
from specdec.engine.protocol import Drafting

UNUSED = {
    "disaggregation_mode": "null",
    "attn_dp_size": 1,
    "enable_dp_attention": False,
    "enable_lora": None,
    "lora_paths": None,
    "enable_hierarchical_cache": False,
    "weight_cache_mode": "off",
}
"""SGLang's own values of what nobody asked for."""


def engine(run_dir: Path, *, drafts: bool = True, **given: object) -> Engine:
    arguments = SimpleNamespace(**(UNUSED | given))
    made = Engine(Settings(run_dir, "secret", "r", "probe-", Drafting.ON))
    made.scheduler = SimpleNamespace(server_args=arguments, **({"draft_worker": object()} if drafts else {}))
    return made


def test_what_nobody_asked_for_stands_in_no_ones_way(tmp_path: Path):
    _check_supported(engine(tmp_path))


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("disaggregation_mode", "prefill"),
        ("attn_dp_size", 2),
        ("enable_dp_attention", True),
        ("enable_lora", True),
        ("lora_paths", ["a=/models/a"]),
        ("enable_hierarchical_cache", True),
        ("weight_cache_mode", "client"),
    ],
)
def test_what_no_swap_was_tried_beside_ends_the_start_by_name(tmp_path: Path, argument: str, value: object):
    with pytest.raises(SystemExit):
        _check_supported(engine(tmp_path, **{argument: value}))
    said = json.loads((tmp_path / START_REPORT).read_text())
    assert said["reason"] == "NotBesideDrafter"
    assert f"--{argument.replace('_', '-')}" in said["message"]


def test_without_a_drafter_there_is_nothing_to_swap(tmp_path: Path):
    _check_supported(engine(tmp_path, drafts=False, enable_lora=True))
