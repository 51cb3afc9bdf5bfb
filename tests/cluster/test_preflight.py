"""The preflight on the real cluster: a Job of the engine's image judges before any engine pod is made or disturbed."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from tests.support.kubectl import KUBECONFIG, condition, get, items, wait_condition, wait_for
from tests.support.podsecurity import violations
from tests.support.servers import apply_server, claim, engine_pods, restarts, server, wait_current

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

COMMAND = "from specdec.cli.main import main; main()"


def judged(namespace: str, status: str, seconds: float = 90) -> dict[str, Any]:
    """Wait until the newest spec's drafter has been judged so."""
    return wait_condition("kimi", namespace, "PreflightPassed", status, seconds)


def jobs(namespace: str) -> list[dict[str, Any]]:
    return items("jobs", namespace, "specdec.dev/server=kimi")


def specdec(*words: str) -> subprocess.CompletedProcess[str]:
    """Run `kubectl specdec` against the cluster."""
    line = [sys.executable, "-c", COMMAND, *words, "--kubeconfig", str(KUBECONFIG)]
    return subprocess.run(line, capture_output=True, text=True, timeout=60, check=False)


def reasons(namespace: str) -> list[str]:
    """Reasons of the server's events."""
    return [
        event["reason"] for event in items("events", namespace) if event["involvedObject"]["name"] == "kimi"
    ]


def test_a_blocked_first_drafter_makes_no_engine_pod(namespace: str):
    apply_server(server(namespace, "renamed", "v1"))
    thing = judged(namespace, "False")
    found = condition(thing, "PreflightPassed")
    assert found["reason"] == "ParametersNotFed"
    assert "expected" in found["message"]
    assert condition(thing, "Ready")["reason"] == "PreflightBlocked"
    assert (engine_pods(namespace), items("statefulsets", namespace)) == ([], [])
    (job,) = jobs(namespace)
    pod = job["spec"]["template"]["spec"]
    assert violations(pod) == []
    assert "nvidia.com/gpu" not in str(pod)
    assert job["spec"]["ttlSecondsAfterFinished"] <= 60
    wait_for("the event", 10, lambda: "ParametersNotFed" in reasons(namespace))


def test_kubectl_specdec_preflight_shows_the_whole_result(namespace: str):
    shown = specdec("preflight", "kimi", "-n", namespace)
    assert (shown.returncode, shown.stderr) == (1, "")
    assert shown.stdout.startswith("Blocked  pvc://models/renamed for pvc://models/kimi on SGLang 0.5.23")
    assert "ParametersNotFed" in shown.stdout
    assert "do        " in shown.stdout


def test_one_apply_of_a_good_drafter_mends_it(namespace: str):
    apply_server(server(namespace, "good", "v2"))
    thing = wait_current(namespace, seconds=300)
    assert condition(thing, "PreflightPassed")["status"] == "True"
    assert condition(thing, "Stalled")["status"] == "False"
    assert "PreflightPassed" in reasons(namespace)
    passed = specdec("preflight", "kimi", "-n", namespace)
    assert (passed.returncode, passed.stdout.split()[0]) == (0, "Passed"), passed.stderr


def test_a_blocked_drafter_of_a_claim_that_no_pod_mounts_disturbs_no_engine(namespace: str):
    claim(namespace, name="others")
    (before,) = engine_pods(namespace)
    template = get("statefulset", "kimi", namespace)["spec"]["template"]
    apply_server(server(namespace, "x", "v3", drafter={"model": "pvc://others/renamed"}))
    thing = judged(namespace, "False")
    assert condition(thing, "Ready")["status"] == "True"
    assert thing["status"]["active"]["version"] == "v2"
    (after,) = engine_pods(namespace)
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert restarts(namespace) == 0
    assert get("statefulset", "kimi", namespace)["spec"]["template"] == template


def test_what_an_engine_takes_in_place_is_judged_by_its_agent_and_by_no_job(namespace: str):
    made = {job["metadata"]["name"] for job in jobs(namespace)}
    apply_server(server(namespace, "layers-0", "v4"))
    thing = judged(namespace, "True")
    assert thing["status"]["preflight"]["repairs"] == ["ParametersNotFed"]
    apply_server(server(namespace, "renamed", "v5"))
    assert condition(judged(namespace, "False"), "PreflightPassed")["reason"] == "ParametersNotFed"
    assert {job["metadata"]["name"] for job in jobs(namespace)} <= made
    whole = specdec("preflight", "kimi", "-n", namespace, "-o", "json")
    report = json.loads(whole.stdout)
    assert report["findings"][0]["code"] == "ParametersNotFed"
    assert report["format"].startswith("SGLang EAGLE"), "only the agent's own report names the format"


def test_without_a_preflight_the_engine_refuses_it_while_loading(namespace: str):
    apply_server(server(namespace, "renamed", "v5", preflight={"mode": "Off"}))

    def refused() -> dict[str, str] | None:
        thing = get("sds", "kimi", namespace)
        off = condition(thing, "PreflightPassed").get("reason") == "PreflightOff"
        told = condition(thing, "DrafterCurrent")
        return told if off and told.get("reason") == "DrafterRejected" else None

    refusal = wait_for("the engine to refuse v5", 60, refused)
    assert "preflight:" not in refusal["message"]
    assert condition(get("sds", "kimi", namespace), "Stalled").get("status") == "True"
    assert len(engine_pods(namespace)) == 1
    assert restarts(namespace) == 0
