"""The demo's story on the real cluster with the real engine: every promise is one test, and so is every query of the dashboard."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from typing import Any

import pytest
from tests.demo.figures import Result
from tests.demo.story import NAMESPACE, SERVER, Story, clean_up
from tests.support.kubectl import wait_for
from tests.support.metrics import DASHBOARDS, RULES, expressions, named, rules
from tests.support.prometheus import Prometheus, monitored

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]
QUERIES = [query for path in DASHBOARDS for query in expressions(json.loads(path.read_text()))]
RECORDED = [rule for rule in rules() if "record" in rule]
ALERTS = [rule for rule in rules() if "alert" in rule]
MAY_BE_EMPTY = {
    "specdec_server_speedup": "the demo's acceptance.baseline is Off, so nothing is compared with no drafting",
    "specdec_agent_errors_total": "no request to an agent needs to fail",
}
"""Metrics without which a query shows nothing, and why that may be so in the demo."""
SILENT = {
    "SpecdecOperatorAbsentDuringRollout": "an operator decides all the time",
    "SpecdecOperatorAbsent": "an operator decides all the time",
    "SpecdecDraftingOff": "a good drafter serves all the time",
    "SpecdecReconcileFailing": "passes do not fail",
    "SpecdecAgentsUnreachable": "agents answer",
}
"""Alerts whose expression holds at no moment of the demo, and why."""


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """Scrape operator and engine from before the story's first line."""
    with Prometheus(tmp_path_factory.mktemp("prometheus"), monitored(), rules=RULES) as running:
        what = "its first scrape of an operator that leads"
        wait_for(what, 60, lambda: running.ever("specdec_leader == 1"))
        running.begin = time.time()
        yield running


@pytest.fixture(scope="module")
def told(prometheus: Prometheus) -> Iterator[Result]:
    """Tell the story once."""
    try:
        result, _requests = Story().run()
        yield result
    finally:
        clean_up()


def test_every_promise_of_the_demo_is_kept(told: Result):
    assert [f"{p.text}: {p.found}" for p in told.promises if not p.kept] == []


def test_a_refused_drafter_never_took_a_request(told: Result):
    refused = [c for c in told.chapters if c.version in {"v3", "v3 off", "v4 again"}]
    assert [(c.version, c.touched, c.swapped) for c in refused] == [
        ("v3", 0, None),
        ("v3 off", 0, None),
        ("v4 again", 0, None),
    ]


def test_users_got_more_with_the_good_drafter_than_with_the_middling_one(told: Result):
    good, middling = told.chapters[0].after, told.chapters[1].after
    assert good
    assert middling
    assert good.accept_length > middling.accept_length > 2.2


@pytest.mark.usefixtures("told")
def test_the_monitors_targets_are_scraped(prometheus: Prometheus):
    assert prometheus.down() == []
    assert prometheus.ever('up{job="specdec-operator"} == 1')
    assert prometheus.ever(f'up{{job="specdec-operator-engines",namespace="{NAMESPACE}"}} == 1')


def chosen(query: str) -> str:
    """Put the demo's server where the dashboard's variables stand, and ask for the series of label_values."""
    plain = query.replace("$namespace", NAMESPACE).replace("$server", SERVER)
    return re.sub(r"^label_values\((.*), (\w+)\)$", r"count by (\2) (\1)", plain)


@pytest.mark.usefixtures("told")
@pytest.mark.parametrize("query", QUERIES)
def test_every_query_of_the_dashboard_finds_something(prometheus: Prometheus, query: str):
    assert prometheus.ever(chosen(query)) or named(query) & set(MAY_BE_EMPTY)


@pytest.mark.usefixtures("told")
@pytest.mark.parametrize("rule", RECORDED, ids=lambda rule: rule["record"])
def test_every_recording_rule_records(prometheus: Prometheus, rule: dict[str, Any]):
    assert prometheus.ever(rule["record"])


@pytest.mark.usefixtures("told")
@pytest.mark.parametrize("rule", ALERTS, ids=lambda rule: rule["alert"])
def test_every_alert_looks_at_what_is_there_and_holds_as_the_story_has_it(
    prometheus: Prometheus, rule: dict[str, Any]
):
    for name in named(rule["expr"]) - set(MAY_BE_EMPTY):
        assert prometheus.ever(name), name
    assert bool(prometheus.ever(rule["expr"])) is (rule["alert"] not in SILENT)
