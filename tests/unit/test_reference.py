"""The reference pages say what the code says."""

from __future__ import annotations

import pytest

from specdec.acceptance.verdict import Doubt, Judgement, Layer
from specdec.api.conditions import ConditionType, Reason
from specdec.cli.main import COMMANDS
from specdec.cli.reference import cli_page, crd_page, documented
from specdec.preflight.reference import publish


@pytest.mark.parametrize("enum", [ConditionType, Reason, Judgement, Layer, Doubt])
def test_every_word_has_its_sentence(enum):
    found = dict(documented(enum))
    assert set(found) == {member.value for member in enum}
    assert all(found.values())


def test_every_field_of_the_api_has_its_sentence():
    rows = [line for line in crd_page().splitlines() if line.startswith("| `")]
    assert [row for row in rows if row.endswith("|  |")] == []
    assert any("acceptance.minAcceptLength" in row for row in rows)


def test_every_command_is_there():
    page = cli_page()
    assert [name for name in COMMANDS if f"### {name}\n" not in page] == []


def test_a_page_that_is_not_current_fails_the_check(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("specdec.preflight.reference.FOLDER", tmp_path)
    assert publish({"page.md": lambda: "new\n"}, check=False) == 0
    assert publish({"page.md": lambda: "new\n"}, check=True) == 0
    assert publish({"page.md": lambda: "newer\n"}, check=True) == 1
    assert "make generate" in capsys.readouterr().err
