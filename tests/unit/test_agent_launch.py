from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.support.golden import Recorded, recorded
from tests.unit.test_agent_plan import plan

from specdec.engine.agent.ladder import RUNGS
from specdec.engine.agent.launch import (
    Launch,
    LaunchRefusedError,
    Profile,
    Secrets,
    read_profile,
    render,
)
from specdec.engine.protocol import Drafting
from specdec.preflight.arguments import OWNED

__all__ = ["recorded"]
CPU = Profile(
    version="0.5.23",
    platform="cpu",
    args=("--device", "cpu", "--attention-backend", "intel_amx"),
    env={"OMP_NUM_THREADS": "1"},
)


def rendered(*arguments: str, drafter: bool = True, rung: int = 0, profile: Profile = CPU) -> Launch:
    return render(
        plan(3).model_copy(update={"arguments": arguments}),
        profile,
        python="/usr/bin/python3",
        overlay=Path("/var/lib/specdec/overlays/0123") if drafter else None,
        drafting=Drafting.ON,
        address=("0.0.0.0", 30000),
        run_dir=Path("/run/specdec/ab12"),
        secrets=Secrets(loopback="secret", probe_prefix="specdec-00-"),
        rung=RUNGS[rung],
        environ={"PATH": "/usr/bin", "POD_UID": "uid", "STATE_DIR": "/var/lib/specdec"},
    )


def after(launch: Launch, name: str) -> str:
    return launch.argv[launch.argv.index(name) + 1]


def test_the_whole_command_line_is_as_reviewed(recorded: Recorded):
    launch = rendered("--context-length", "8192", "--trust-remote-code")
    document = {
        "argv": launch.argv,
        "environment": launch.environment,
        "adaptive": json.loads(launch.adaptive),
    }
    recorded("agent/launch.json", json.dumps(document, indent=1) + "\n")


def test_without_a_drafter_nothing_speculates():
    launch = rendered(drafter=False)
    assert not [argument for argument in launch.argv if argument.startswith("--speculative")]
    assert launch.environment["SPECDEC_REVISION"] == ""


def test_draft_tokens_follow_the_steps():
    assert (
        after(rendered(), "--speculative-num-steps"),
        after(rendered(), "--speculative-num-draft-tokens"),
    ) == (
        "3",
        "4",
    )


def test_the_plans_arguments_come_after_the_profiles_and_win():
    argv = rendered("--attention-backend", "triton").argv
    assert [argv[n + 1] for n, word in enumerate(argv) if word == "--attention-backend"] == [
        "intel_amx",
        "triton",
    ]


def test_max_running_requests_is_always_there_and_the_users_wins():
    assert after(rendered(), "--max-running-requests") == "48"
    assert rendered("--max-running-requests=8").argv.count("--max-running-requests") == 0
    assert after(rendered("--max-running-requests", "8"), "--max-running-requests") == "8"


def test_remote_code_only_when_the_plan_says_so():
    assert "--trust-remote-code" not in rendered().argv


def test_a_rung_adds_its_arguments():
    assert "--disable-cuda-graph" in rendered(rung=len(RUNGS) - 1).argv


def test_a_rung_names_the_batches_that_drafting_off_has_graphs_for():
    assert json.loads(rendered().adaptive) == {"1": {"candidate_steps": [0, 3]}}
    fewer = next(n for n, rung in enumerate(RUNGS) if rung.name == "FewerOffGraphs")
    assert json.loads(rendered(rung=fewer).adaptive) == {
        "1": {"candidate_steps": [0, 3]},
        "9": {"candidate_steps": [3]},
    }


def test_the_agents_own_variables_are_withheld():
    environment = rendered().environment
    assert environment["PATH"] == "/usr/bin"
    assert not {"POD_UID", "STATE_DIR"} & set(environment)


@pytest.mark.parametrize("name", sorted({*OWNED, "--model", "--speculative-draft-model"}))
def test_arguments_of_the_agents_own_are_refused(name):
    with pytest.raises(LaunchRefusedError, match="engine image of the operator's release"):
        rendered(name, "x")
    with pytest.raises(LaunchRefusedError):
        rendered(f"{name}=x")


@pytest.mark.parametrize("name", ["--hos", "--speculative-draft-model-pa", "--speculative-num-s"])
def test_abbreviations_of_them_too(name):
    with pytest.raises(LaunchRefusedError):
        rendered(name, "x")


@pytest.mark.parametrize("content", [None, "{", '{"args": 3}'])
def test_a_profile_that_is_none_is_refused(tmp_path, content):
    path = tmp_path / "engine.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(LaunchRefusedError, match="engine image"):
        read_profile(path)
