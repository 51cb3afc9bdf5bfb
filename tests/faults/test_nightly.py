"""How the parts of a night become one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.faults import nightly


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(nightly, "FOLDER", tmp_path)
    return tmp_path


def part(story: str, *, met: bool = True, wrong: tuple[str, ...] = ()) -> nightly.Summary:
    row: nightly.Row = {"story": story, "fault": "LOST", "met": met, "wrong": list(wrong)}
    return nightly.summed({"fault points": [row], "pauses": [], "walks": [], "pathologies": []}, 60.0)


def test_all_parts_of_one_state_of_the_code_are_added_up(folder: Path):
    assert nightly.written(part("undo"), 1, 2, "now") == 0
    assert not (folder / "nightly.json").exists()
    assert nightly.written(part("scale up", met=False, wrong=("the fault was not met",)), 2, 2, "now") == 1
    whole = json.loads((folder / "nightly.json").read_text())
    assert (whole["fault points"], whole["fault points that were not met"], len(whole["wrong"])) == (2, 1, 1)
    assert whole["fault points by story"] == {"undo": 1, "scale up": 1}
    assert [path.name for path in folder.iterdir()] == ["nightly.json"]


def test_a_part_of_an_earlier_state_is_not_added_to_it(folder: Path):
    nightly.written(part("undo"), 1, 2, "earlier")
    nightly.written(part("scale up"), 2, 2, "now")
    assert not (folder / "nightly.json").exists()
    nightly.written(part("first start"), 1, 2, "now")
    whole = json.loads((folder / "nightly.json").read_text())
    assert whole["fault points by story"] == {"first start": 1, "scale up": 1}
