"""Docs: links lead somewhere, commands are commands, and what pages say of the chart is so."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest
import yaml
from bench.judging import page as judged
from tests.support.paths import ROOT

from specdec.cli.main import specdec

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
BENCHMARKS = ROOT / "docs" / "benchmarks.md"
VALUES = yaml.safe_load((ROOT / "charts/specdec-operator/values.yaml").read_text())


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path):
    links = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text())
    assert [link for link in links if "://" not in link and not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_commands_of_the_cli_are_commands_with_such_options(page: Path):
    for verb, words in re.findall(r"kubectl specdec ([a-z]+)([^\n`|;&#)]*)", page.read_text()):
        command = specdec.get_command(click.Context(specdec), verb)
        assert command is not None, verb
        known = {option for parameter in command.params for option in parameter.opts} | {"--help", "-h"}
        assert set(re.findall(r"(?<=\s)--?[a-z][a-z-]*", words)) <= known, (verb, words)


@pytest.mark.parametrize("name", ["install.md", "uninstall.md"])
def test_values_that_a_page_names_are_values(name: str):
    text = (ROOT / "docs/how-to" / name).read_text()
    named = set(re.findall(r"--set '?([A-Za-z.]+)=", text)) | set(
        re.findall(r"`((?:crds|rbac|networkPolicy|metrics|admissionPolicy|engine)\.[A-Za-z.]+)`", text)
    )
    for path in named:
        place = VALUES
        for part in path.split("."):
            assert part in place, path
            place = place[part]


def test_the_judges_tables_are_those_of_a_whole_run():
    found = dict(
        re.findall(r"<!-- judge:([a-z-]+) -->\n(.*?)<!-- end -->", BENCHMARKS.read_text(), re.DOTALL)
    )
    assert found.keys() == {*judged.TABLES, "run"}
    assert [name for name, text in found.items() if not text.strip()] == []
