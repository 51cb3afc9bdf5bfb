"""The health check for Argo CD that docs/how-to/gitops.md ships, run in Lua on objects as the operator leaves them."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lupa import LuaRuntime
from tests.support.scenario import Scenario
from tests.support.scenario_agent import Model

from specdec.controller.status import rendered

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "gitops.md"


def health(scenario: Scenario, **metadata: Any) -> tuple[str, str]:
    """What Argo CD would show: it runs the text with the object as the global `obj`."""
    (script,) = re.findall(r"```lua\n(.*?)```", PAGE.read_text(), re.DOTALL)
    # Argo CD's Lua has no access to files or processes either.
    lua = LuaRuntime(register_eval=False, register_builtins=False)
    cluster = scenario.cluster
    obj = {
        "metadata": {**cluster.manifest["metadata"], **metadata},
        "spec": cluster.manifest["spec"],
        "status": rendered(cluster.status) if cluster.plans else None,
    }
    lua.globals().obj = lua.table_from({key: value for key, value in obj.items() if value}, recursive=True)
    found = lua.execute(script)
    return found["status"], found["message"]


def begun(**spec: Any) -> Scenario:
    scenario = Scenario()
    scenario.given.drafters(v1=0.9, v2=0.8, v3=0.8, v4=0.0).server("v1", floor="2.2", **spec).traffic(1)
    return scenario


def settled(scenario: Scenario) -> Scenario:
    scenario.when.time(100).drafter("v2").time(100)
    return scenario


STORIES: dict[str, tuple[Callable[[], Scenario], str, str]] = {}


def story(status: str, words: str) -> Callable[[Callable[[], Scenario]], Callable[[], Scenario]]:
    def noted(tell: Callable[[], Scenario]) -> Callable[[], Scenario]:
        STORIES[tell.__name__] = (tell, status, words)
        return tell

    return noted


@story("Progressing", "has not seen the newest spec")
def new() -> Scenario:
    return begun()


@story("Progressing", "EnginesStarting")
def starting() -> Scenario:
    scenario = begun()
    scenario.when.time(3)
    return scenario


@story("Progressing", "PreflightPending: .*v1 is judged before an engine starts with it")
def judged_by_its_headers() -> Scenario:
    scenario = begun()
    scenario.when.time(1)
    return scenario


@story("Degraded", "DrafterRejected: .*preflight: ParametersNotFed")
def blocked_by_its_headers() -> Scenario:
    scenario = Scenario()
    scenario.given.drafters(v1=Model(fault="ParametersNotFed")).server("v1")
    scenario.when.time(30)
    return scenario


@story("Healthy", "Active: v2 serves on all engines")
def serving() -> Scenario:
    return settled(begun())


@story("Progressing", "v3")
def judging() -> Scenario:
    scenario = settled(begun())
    scenario.when.drafter("v3").time(6)
    return scenario


@story("Degraded", "DrafterRejected: v4 was rejected")
def rejected() -> Scenario:
    scenario = settled(begun())
    scenario.when.drafter("v4").time(60)
    return scenario


@story("Suspended", "rollout.paused holds the rollout of v3")
def paused() -> Scenario:
    scenario = settled(begun())
    scenario.when.spec(rollout={"paused": True}).drafter("v3").time(60)
    return scenario


@story("Healthy", "DraftingOff")
def drafting_off() -> Scenario:
    scenario = settled(begun())
    scenario.when.spec(drafting="Off").time(60)
    return scenario


@story("Degraded", "UndoneByUser|a person returned to v1")
def undone() -> Scenario:
    scenario = settled(begun())
    oldest = min(scenario.cluster.revisions.values(), key=lambda record: record.number)
    scenario.when.request(f"undo@{oldest.name}@1").time(60)
    return scenario


@story("Degraded", "ClaimNotFound")
def without_its_claim() -> Scenario:
    scenario = begun()
    scenario.given.no_claim()
    scenario.when.time(5)
    return scenario


@story("Degraded", "BelowFloor")
def observed_and_bad() -> Scenario:
    scenario = Scenario()
    scenario.given.drafters(v1=0.4).server("v1", floor="2.2", mode="Observe").traffic(1)
    scenario.when.time(120)
    return scenario


@pytest.mark.parametrize("name", STORIES)
def test_argo_cd_shows_how_the_server_is(name):
    tell, status, words = STORIES[name]
    found, message = health(tell())
    assert found == status, message
    assert re.search(words, message), message


def test_a_spec_that_the_operator_has_not_seen_is_under_way():
    assert health(settled(begun()), generation=99)[0] == "Progressing"
