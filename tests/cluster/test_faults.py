"""Faults on the real cluster: operator, container and engine are killed, and what serves is what should."""

from __future__ import annotations

import time

import pytest
from tests.demo.traffic import start_client
from tests.support import install
from tests.support.kubectl import condition, kubectl, wait_condition, wait_for
from tests.support.nodes import kill_container
from tests.support.servers import (
    agent,
    apply_server,
    candidate,
    engine_pods,
    exec_in,
    restarts,
    server,
    wait_current,
)

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

KILL_ENGINE = """
import os, pathlib, signal
for folder in pathlib.Path('/proc').iterdir():
    if folder.name.isdigit() and int(folder.name) != 1:
        line = (folder / 'cmdline').read_bytes()
        if b'sglang' in line and int(folder.name) != os.getpid():
            os.kill(int(folder.name), signal.SIGKILL)
"""


@pytest.fixture(scope="module", autouse=True)
def serving(namespace: str) -> str:
    """One server for all faults, serving v1 under a steady load: without traffic nothing is promoted."""
    apply_server(server(namespace, "good", "v1"))
    wait_condition("kimi", namespace, "Ready", "True", 300)
    start_client(namespace, "kimi")
    wait_current(namespace)
    return namespace


def test_a_killed_engine_process_comes_back_by_itself_with_its_drafter(namespace: str):
    before = agent(namespace)
    exec_in(namespace, "kimi-0", "python", "-c", KILL_ENGINE)
    after = wait_for(
        "the engine to serve again",
        180,
        lambda: (s := agent(namespace)).get("phase") == "Serving" and s["boot"] != before["boot"] and s,
    )
    assert restarts(namespace) == 0, "the agent restarts SGLang, not the kubelet the container"
    assert (after["revision"], after["drafting"], after["steps"]) == (before["revision"], "On", 3)
    wait_condition("kimi", namespace, "Ready", "True", 60)


def test_the_operator_is_killed_in_the_middle_of_a_rollout_and_finishes_it_afterwards(namespace: str):
    apply_server(server(namespace, "q70", "v2", rollout={"minSoakSeconds": 15}))
    wait_for("the candidate to serve", 60, lambda: candidate(namespace, "Serving"))
    kubectl(
        "delete", "pod", "-l", "app.kubernetes.io/name=specdec-operator", "-n", install.OPERATOR_NAMESPACE,
        "--grace-period=0", "--force",
    )  # fmt: skip
    thing = wait_current(namespace)
    assert thing["status"]["active"]["version"] == "v2"
    assert [c for c in engine_pods(namespace)[0]["status"]["containerStatuses"] if c["restartCount"]] == []


def test_without_an_operator_the_dead_man_switch_takes_a_candidate_back(namespace: str):
    active = agent(namespace)["revision"]
    apply_server(
        server(namespace, "good", "v1-again", rollout={"minSoakSeconds": 600, "confirmWithinSeconds": 10})
    )
    wait_for("the candidate to serve", 60, lambda: candidate(namespace, "Serving"))
    install.scale_operator(0)
    try:
        gone = wait_for("the dead-man switch", 60, lambda: candidate(namespace, "SwappedBack"))
        assert gone["reason"] == "NotConfirmed"
        assert agent(namespace)["revision"] == active
    finally:
        install.scale_operator(1)
    apply_server(server(namespace, "good", "v1-again"))
    assert wait_current(namespace)["status"]["active"]["version"] == "v1-again"


def test_a_container_killed_right_after_a_rollback_starts_with_the_last_good_drafter(namespace: str):
    good = agent(namespace)["promoted"]
    apply_server(server(namespace, "dead", "v3"))
    wait_for("the dead drafter to be taken back", 60, lambda: candidate(namespace, "SwappedBack"))
    time.sleep(1)  # the fault: one second after the rollback
    kill_container(namespace, "kimi-0", "engine")
    wait_for("the container to be restarted", 60, lambda: restarts(namespace) == 1)
    status = wait_for(
        "the engine to serve again", 180, lambda: (s := agent(namespace)).get("phase") == "Serving" and s
    )
    assert (status["revision"], status["promoted"]) == (good, good)
    current = condition(wait_condition("kimi", namespace, "Stalled", "True", 60), "DrafterCurrent")
    assert (current["status"], current["reason"]) == ("False", "DrafterRejected")


def test_a_rejected_drafter_is_mended_by_the_next_apply(namespace: str):
    apply_server(server(namespace, "q70", "v4"))
    thing = wait_current(namespace)
    assert condition(thing, "Stalled")["status"] == "False"
