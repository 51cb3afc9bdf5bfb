"""Docs: links lead somewhere, commands are commands, and what pages say of the chart is so."""

from __future__ import annotations

import inspect
import re
import shlex
from pathlib import Path

import click
import pytest
import yaml
from bench.judging import page as judged
from tests.support.paths import ROOT

from specdec.api.conditions import Reason
from specdec.api.v1alpha1 import SpecDecodeServer
from specdec.cli.main import specdec
from specdec.controller import report
from specdec.resources.network import service
from specdec.rollout import inputs
from specdec.rollout.conditions import REFUSALS, stalled
from specdec.rollout.revisions import content
from specdec.rollout.world import Settings

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
BENCHMARKS = ROOT / "docs" / "benchmarks.md"
VALUES = yaml.safe_load((ROOT / "charts/specdec-operator/values.yaml").read_text())


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path):
    links = re.findall(r"\]\(([^)#:]*)(?:#([^)]*))?\)", page.read_text())
    assert [link for link, _ in links if not (page.parent / link).exists()] == []
    assert [
        (link, part)
        for link, part in links
        if part and part not in parts(page.parent / link if link else page)
    ] == []


def parts(page: Path) -> set[str]:
    """Names of a page's headings in links, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_command_of_the_cli_can_be_given_so(page: Path):
    for verb, rest in re.findall(r"kubectl specdec ([a-z]+)((?: [^\n`|;&#>)]*)?)", page.read_text()):
        command = specdec.get_command(click.Context(specdec), verb)
        assert command is not None, verb
        given = re.split(r"\s{3,}", rest)[0]  # what a help's examples say of a command stands apart from it
        words = shlex.split(re.sub(r"-f \S+", "-f -", given))
        if words and "[OPTIONS]" not in words:  # else it only names the command, or is its help's first line
            command.make_context(verb, words)


def test_readmes_smallest_server_is_the_example():
    (block,) = re.findall(
        r"## The smallest server\n```yaml\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL
    )
    assert block == (ROOT / "examples/minimal.yaml").read_text()


@pytest.mark.parametrize(
    ("page", "example"),
    [("README.md", "minimal.yaml"), ("docs/how-to/kimi-k2.5.md", "kimi-k2.5-eagle3.yaml")],
)
def test_a_page_asks_a_server_where_it_is_by_its_models_name(page: str, example: str):
    text = (ROOT / page).read_text()
    manifest = yaml.safe_load((ROOT / "examples" / example).read_text())
    manifest["metadata"] |= {"namespace": "llm", "uid": "1"}
    server = SpecDecodeServer.model_validate(manifest)
    (port,) = service(server)["spec"]["ports"]
    assert re.findall(r"port-forward service/(\S+) (\d+)", text) == [(server.name, str(port["port"]))]
    assert re.findall(r"http://localhost:(\d+)(/v1/)", text) == [(str(port["port"]), "/v1/")]
    assert re.findall(r'"model": "([^"]+)"', text) == [
        content(server, Settings("image", ()))["target"]["servedName"]
    ]


def test_the_runbook_of_stalled_servers_has_every_reason():
    source = "".join(inspect.getsource(what) for what in (inputs, stalled, report.unreadable))
    reasons = {Reason[name] for name in re.findall(r"Reason\.([A-Z_]+)", source)} - {Reason.PROGRESSING}
    told = (ROOT / "docs/how-to/runbooks/SpecdecServerStalled.md").read_text()
    assert {*reasons, *REFUSALS} - set(re.findall(r"`([A-Za-z]+)`", told)) == set()


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
