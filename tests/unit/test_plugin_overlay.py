from __future__ import annotations

import json
from pathlib import Path

import pytest

from specdec.engine.plugin.overlay import mended, read_rules
from specdec.engine.plugin.refusal import RefusedError


def rules(folder: Path, content: object) -> Path:
    (folder / "overlay.json").write_text(json.dumps(content))
    return folder


def test_a_folder_without_rules_is_read_as_it_is(tmp_path: Path):
    assert read_rules(tmp_path).empty
    assert list(mended(tmp_path, [("a", 1)])) == [("a", 1)]


def test_tensors_are_renamed_and_left_out(tmp_path: Path):
    rules(tmp_path, {"renames": {"module.a": "a"}, "transforms": {}, "drops": ["b"]})
    assert list(mended(tmp_path, [("module.a", 1), ("b", 2), ("c", 3)])) == [("a", 1), ("c", 3)]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ([], "OverlayUnknown"),
        ({"renames": {}}, "OverlayUnknown"),
        ({"renames": 1, "transforms": {}, "drops": []}, "OverlayUnknown"),
        ({"renames": {}, "transforms": {"d2t": "rotate"}, "drops": []}, "OverlayUnknown"),
    ],
)
def test_rules_that_are_not_understood_refuse_the_drafter(tmp_path: Path, content: object, reason: str):
    with pytest.raises(RefusedError) as caught:
        read_rules(rules(tmp_path, content))
    assert caught.value.reason == reason
