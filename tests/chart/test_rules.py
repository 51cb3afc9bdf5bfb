"""Rules, alerts and the dashboard: tested by promtool, and in step with the metrics and the runbooks."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.support import golden as files
from tests.support.chart import of_kind, render, tool
from tests.support.metrics import (
    DASHBOARDS,
    RULES,
    expressions,
    named,
    operator_metrics,
    plugin_declared,
    recorded,
    rules,
    series,
)
from tests.support.paths import ROOT

TESTED = Path(__file__).parent / "rules.promtool.yaml"
RUNBOOKS = ROOT / "docs" / "how-to" / "runbooks"
ALERTS = [rule for rule in rules() if "alert" in rule]
PANELS = [panel for path in DASHBOARDS for panel in json.loads(path.read_text())["panels"]]


def promtool(*arguments: str, stdin: str = "") -> str:
    done = subprocess.run(
        [tool("promtool"), *arguments], input=stdin, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_promtool_reads_the_rules_and_their_stories_come_true():
    promtool("check", "rules", str(RULES))
    promtool("test", "rules", str(TESTED))


def test_a_story_that_does_not_come_true_is_seen(tmp_path: Path):
    broken = TESTED.read_text().replace("value: 2.3", "value: 2.4")
    (tmp_path / "broken.yaml").write_text(broken.replace("../../charts", str(ROOT / "charts")))
    with pytest.raises(AssertionError, match=r"2\.4"):
        promtool("test", "rules", str(tmp_path / "broken.yaml"))


def test_every_rule_has_a_story():
    stories = yaml.safe_load(TESTED.read_text())["tests"]
    fires = {
        test["alertname"]
        for story in stories
        for test in story.get("alert_rule_test", ())
        if test.get("exp_alerts")
    }
    assert fires == {rule["alert"] for rule in ALERTS}
    asked = {
        name
        for story in stories
        for test in story.get("promql_expr_test", ())
        for name in named(test["expr"])
    }
    assert asked == recorded()


@pytest.mark.parametrize("alert", ALERTS, ids=lambda rule: rule["alert"])
def test_every_alert_has_a_runbook(alert: dict[str, Any]):
    page = ROOT / alert["annotations"]["runbook_url"]
    assert page == RUNBOOKS / f"{alert['alert']}.md"
    text = page.read_text()
    assert text.startswith(f"# {alert['alert']}\n")
    assert re.findall(r"^## (.*)$", text, re.MULTILINE) == ["What users feel", "Look", "Mend"]


def test_there_are_no_runbooks_of_other_alerts():
    assert {path.stem for path in RUNBOOKS.glob("*.md")} == {rule["alert"] for rule in ALERTS}


def test_rules_read_only_metrics_that_exist():
    inventory = series(operator_metrics()) | series(plugin_declared()) | recorded()
    for rule in rules():
        assert named(rule["expr"]), rule
        assert named(rule["expr"]) - inventory == set(), rule


def test_the_dashboard_reads_only_metrics_that_exist():
    inventory = series(operator_metrics()) | series(plugin_declared()) | recorded()
    for path in DASHBOARDS:
        queries = expressions(json.loads(path.read_text()))
        assert len(queries) >= 20
        for query in queries:
            assert named(query), query
            assert named(query) - inventory == set(), query


def test_the_dashboard_shows_every_metric():
    shown = {
        name
        for path in DASHBOARDS
        for query in expressions(json.loads(path.read_text()))
        for name in named(query)
    }
    shown |= {name for rule in rules() for name in named(rule["expr"])}
    families = [
        family for metric in (*operator_metrics(), *plugin_declared()) for family in metric.describe()
    ]
    assert [
        family.name for family in families if not any(name.startswith(family.name) for name in shown)
    ] == []


def test_every_query_of_the_dashboard_is_promql(tmp_path: Path):
    queries = [query for panel in PANELS for query in expressions(panel)]
    plain = [query.replace("$namespace", ".*").replace("$server", ".*") for query in queries]
    group = {
        "name": "dashboard",
        "rules": [{"record": f"q{n}", "expr": query} for n, query in enumerate(plain)],
    }
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump({"groups": [group]}))
    promtool("check", "rules", str(tmp_path / "rules.yaml"))


def test_promtool_finds_nothing_wrong_with_the_operators_metrics():
    from prometheus_client import generate_latest

    text = generate_latest().decode()
    ours = [line for line in text.splitlines() if re.match(r"(# (HELP|TYPE) )?specdec_", line)]
    promtool("check", "metrics", stdin="\n".join(ours) + "\n")


def test_panels_say_what_they_show_and_do_not_overlap():
    assert len({panel["id"] for panel in PANELS}) == len(PANELS)
    taken: set[tuple[int, int]] = set()
    for panel in PANELS:
        assert panel["type"] == "row" or panel["description"].endswith("."), panel["title"]
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not taken & cells, panel["title"]
        assert max(x for x, _ in cells) < 24
        taken |= cells


def test_the_chart_ships_the_rules_and_the_dashboard_as_they_are():
    made = render(files.DATA / "chart" / "everything.input.yaml")
    (rule,) = of_kind(made, "PrometheusRule")
    text = RULES.read_text().replace("docs/how-to/runbooks", "https://docs.example/runbooks")
    assert rule["spec"] == yaml.safe_load(text)
    (dashboard,) = of_kind(made, "ConfigMap")
    assert dashboard["data"] == {path.name: path.read_text() for path in DASHBOARDS}


def test_the_how_tos_alert_does_what_its_story_says(tmp_path: Path):
    page = (ROOT / "docs" / "how-to" / "write-an-alert.md").read_text()
    rule, story = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    (name,) = yaml.safe_load(story)["rule_files"]
    (tmp_path / name).write_text(rule)
    (tmp_path / "story.yaml").write_text(story)
    promtool("test", "rules", str(tmp_path / "story.yaml"))
    (alert,) = yaml.safe_load(rule)["groups"][0]["rules"]
    assert named(alert["expr"])
    assert named(alert["expr"]) - series(operator_metrics()) == set()
