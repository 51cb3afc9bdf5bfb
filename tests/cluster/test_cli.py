"""`kubectl specdec` on the real cluster: found by kubectl, and understood by API server, operator and agent."""

from __future__ import annotations

import json
import subprocess

import pytest
from tests.support.kubectl import KUBECTL, as_person, get, wait_for
from tests.support.servers import agent, apply_server, server, wait_current

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]


def kubectl(*words: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run kubectl as a person does, with the program on the path."""
    return subprocess.run(
        [KUBECTL, *words],
        input=stdin,
        env=as_person(),
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )


def said(*words: str, code: int = 0, stdin: str | None = None) -> str:
    """Run `kubectl specdec` and return what it printed."""
    done = kubectl("specdec", *words, stdin=stdin)
    assert done.returncode == code, done
    return done.stdout if code == 0 else done.stdout + done.stderr


@pytest.fixture(scope="module", autouse=True)
def serving(namespace: str) -> str:
    """One server, serving v1."""
    apply_server(server(namespace, "good", "v1"))
    wait_current(namespace, seconds=300)
    return namespace


def judged_next(namespace: str, drafter: str, version: str) -> None:
    """Roll a version out and wait until it is a candidate that serves; without traffic it stays one."""
    apply_server(server(namespace, drafter, version))

    def on_trial() -> bool:
        found = agent(namespace).get("candidate") or {}
        shown = get("sds", "kimi", namespace)["status"].get("candidate", {})
        return found.get("state") == "Serving" and shown.get("version") == version

    wait_for(f"{version} to be a candidate", 120, on_trial)


def test_it_shows_a_server_with_its_engine_and_its_events(namespace):
    shown = said("status", "kimi", "-n", namespace, "-o", "wide")
    assert "1 of 1 serve pvc://models/kimi on" in shown
    assert "DrafterCurrent      True      Active" in shown
    assert "kimi-0   yes     Serving   v1       v1" in shown
    assert "Events" in shown
    assert "kimi   1/1     v1" in said("status", "-n", namespace)
    assert namespace in said("status", "-A")


def test_kubectl_completes_it(namespace):
    assert kubectl("__complete", "specdec", "und").stdout.startswith("undo\t")


def test_plan_promote_and_history(namespace):
    next_ = json.dumps(server(namespace, "q70", "v2"))
    foretold = said("plan", "-f", "-", stdin=next_)
    assert "v2 would be swapped in on running engines" in foretold
    assert "tell kimi-0: Swap v2" in foretold
    judged_next(namespace, "q70", "v2")
    assert said("promote", "kimi", "-n", namespace).startswith("promote: ")
    wait_current(namespace)
    assert "nothing would change" in said("plan", "-f", "-", stdin=next_)
    last = said("history", "kimi", "-n", namespace).splitlines()[-1]
    assert last.split()[2:5] == ["v2", "Promoted", "PromotedByUser"]
    assert "active, last good, spec" in last
    assert "+  version: v2" in said("diff", "kimi", "v1", "v2", "-n", namespace, code=1)


def test_abort_and_what_plan_says_of_it_then(namespace):
    judged_next(namespace, "q40", "v3")
    assert said("abort", "kimi", "-n", namespace).startswith("abort: ")
    wait_for("v2 to serve", 60, lambda: agent(namespace)["revision"] == agent(namespace)["promoted"])
    refused = said("plan", "-f", "-", stdin=json.dumps(server(namespace, "q40", "v3")), code=1)
    assert "v3 would be refused without another trial" in refused
    seen = said("watch", "kimi", "-n", namespace, "--until", "Aborted", "--timeout", "30")
    assert "Degraded Aborted, 1/1 ready, active v2" in seen


def test_decisions_that_last_are_the_users_own_fields(namespace):
    said("pause", "kimi", "-n", namespace)
    owners = json.loads(
        kubectl("get", "sds", "kimi", "-n", namespace, "-o", "json", "--show-managed-fields").stdout
    )
    mine = [item for item in owners["metadata"]["managedFields"] if item["manager"] == "kubectl-specdec"]
    assert any("f:paused" in json.dumps(item["fieldsV1"]) for item in mine)
    said("resume", "kimi", "-n", namespace)
    assert get("sds", "kimi", namespace)["spec"]["rollout"]["paused"] is False


def test_what_admission_refuses_is_plans_no(namespace):
    wrong = json.dumps(server(namespace, "good", "v9", acceptance={"minAcceptLength": "9"}))
    assert "the most that a drafter can reach is 4" in said("plan", "-f", "-", stdin=wrong, code=1)
