"""The example for Kimi-K2.5 on 8 x H200: the pod and the command line that come of it, as reviewed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.support.golden import Compare, golden
from tests.support.headers import Fixture, kimi_k25, llama
from tests.support.judging import codes, judged
from tests.support.podsecurity import violations

from specdec.api.v1alpha1 import SpecDecodeServer
from specdec.engine.agent.ladder import RUNGS
from specdec.engine.agent.launch import Launch, Secrets, read_profile, render
from specdec.engine.protocol import LaunchPlan, PreflightResult
from specdec.preflight.argument_table import known_arguments
from specdec.preflight.arguments import Arguments, parsed
from specdec.preflight.facts import PLUGIN_PATCHES
from specdec.resources import launch_plan_of, revision_record
from specdec.rollout.clock import exact
from specdec.rollout.plan import plan
from specdec.rollout.world import ClaimView, Plan, PreflightJob, Settings, World

__all__ = ["golden"]
ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "kimi-k2.5-eagle3.yaml"
PROFILE = read_profile(ROOT / "images" / "engine" / "engine.json")
SETTINGS = Settings("registry.example/specdec-engine:1", ("registry.example/",), public_keys=("key",))
NOW = 1_800_000_000.0
GRAPHS_OFF = {"--disable-cuda-graph", "--disable-decode-cuda-graph", "--cuda-graph-backend-decode"}
INT4 = {
    "quant_method": "compressed-tensors",
    "format": "pack-quantized",
    "config_groups": {
        "group_0": {
            "targets": ["Linear"],
            "weights": {
                "num_bits": 4,
                "type": "int",
                "group_size": 32,
                "strategy": "group",
                "symmetric": True,
            },
        }
    },
    "ignore": ["lm_head", "re:.*self_attn.*", "re:.*shared_experts.*"],
}
"""What the public checkpoint says of its weights: only the routed experts are INT4."""


def planned() -> Plan:
    """The operator's passes over the example up to its first engine: the preflight's Job, then what its word allows."""
    manifest = yaml.safe_load(EXAMPLE.read_text())
    manifest["metadata"] |= {"namespace": "llm", "uid": "uid-0", "generation": 1}
    claims = tuple(
        ClaimView(name, exists=True, access_modes=(mode,))
        for name, mode in (("kimi", "ReadOnlyMany"), ("kimi-cache", "ReadWriteOnce"))
    )
    world = World(SpecDecodeServer.model_validate(manifest), SETTINGS, claims=claims)
    made = {item["kind"]: item for item in plan(world, {}, NOW).objects}
    record = replace(revision_record(made["ControllerRevision"]), uid="uid-1")
    passed = PreflightResult(
        revision=record.name,
        settings=world.server.spec.preflight.settings,
        at=exact(NOW + 2),
        report={
            "engineVersion": "0.5.23",
            "findings": [],
            "more": 0,
            "repairs": [],
            "digests": {},
            "skipped": [],
        },
    )
    job = PreflightJob(made["Job"]["metadata"]["name"], record.name, NOW, passed)
    return plan(replace(world, revisions=(record,), preflights=(job,)), {}, NOW + 3)


def one(kind: str) -> dict[str, Any]:
    (found,) = [item for item in planned().objects if item["kind"] == kind]
    return found


def launch_plan() -> LaunchPlan:
    found = launch_plan_of(one("ConfigMap"))
    assert found is not None
    return found


def launched() -> Launch:
    """What the agent makes of the launch plan, with the GPU image's own profile."""
    made = launch_plan()
    return render(
        made,
        PROFILE,
        python="/usr/bin/python3",
        overlay=Path("/var/lib/specdec/overlays/0123"),
        drafting=made.drafting,
        address=("0.0.0.0", 30000),
        run_dir=Path("/run/specdec/ab12"),
        secrets=Secrets(loopback="secret", probe_prefix="specdec-00-"),
        rung=RUNGS[0],
        environ={"PATH": "/usr/bin"},
    )


def arguments() -> Arguments:
    launch = launched()
    return Arguments(parsed(launch.argv[3:]), launch.environment)


def target() -> Fixture:
    fixture = kimi_k25()
    fixture.config["text_config"]["quantization_config"] = INT4
    return fixture


def test_the_whole_command_line_is_as_reviewed(golden: Compare):
    launch = launched()
    golden("kimi", "command", [list(launch.argv), launch.environment, json.loads(launch.adaptive)])


def test_the_whole_pod_is_as_reviewed(golden: Compare):
    pod = one("StatefulSet")["spec"]["template"]["spec"]
    assert violations(pod) == []
    golden("kimi", "pod", [pod])


def test_the_image_knows_every_argument():
    known = known_arguments(PROFILE.version)
    assert known is not None
    assert set(arguments().values) - set(known) == set()


def test_the_preflight_finds_nothing_against_it():
    outcome = judged(llama(), PROFILE.version, target=target(), arguments=arguments(), patches=PLUGIN_PATCHES)
    assert codes(outcome) == {}


def test_it_says_what_the_models_guides_say():
    values = arguments().values
    wanted = {
        "--tp-size": "8",
        "--trust-remote-code": "",
        "--reasoning-parser": "kimi_k2",
        "--tool-call-parser": "kimi_k2",
        "--speculative-algorithm": "EAGLE3",
        "--speculative-num-steps": "3",
        "--speculative-eagle-topk": "1",
        "--speculative-num-draft-tokens": "4",
    }
    assert {name: values.get(name) for name in wanted} == wanted


def test_nothing_of_the_drafter_is_inherited_from_the_target():
    values = arguments().values
    assert values["--speculative-draft-model-quantization"] == "unquant"
    assert values["--speculative-draft-kv-cache-dtype"] == "auto"
    assert "--max-running-requests" in values
    older = render_for("0.5.17")
    assert "--speculative-draft-kv-cache-dtype" not in older


def render_for(version: str) -> tuple[str, ...]:
    profile = PROFILE.model_copy(update={"version": version})
    made = launch_plan()
    return render(
        made,
        profile,
        python="python3",
        overlay=Path("/o"),
        drafting=made.drafting,
        address=("0.0.0.0", 30000),
        run_dir=Path("/run"),
        secrets=Secrets("s", "p"),
        rung=RUNGS[0],
        environ={},
    ).argv


def test_cuda_graphs_are_on_and_no_hub_is_asked():
    launch = launched()
    assert not GRAPHS_OFF & set(launch.argv)
    assert launch.environment["HF_HUB_OFFLINE"] == launch.environment["TRANSFORMERS_OFFLINE"] == "1"
    values = arguments().values
    assert all(values[name].startswith("/") for name in ("--model-path", "--speculative-draft-model-path"))


def test_the_ranks_have_shared_memory_and_it_is_counted():
    pod = one("StatefulSet")["spec"]["template"]["spec"]
    (memory,) = [volume["emptyDir"] for volume in pod["volumes"] if volume["name"] == "shm"]
    assert memory == {"medium": "Memory", "sizeLimit": "32Gi"}
    container = pod["containers"][0]
    assert {"name": "shm", "mountPath": "/dev/shm"} in container["volumeMounts"]
    assert container["resources"]["limits"] == {"memory": "1Ti", "nvidia.com/gpu": "8"}


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["--disaggregation-mode", "prefill"], "Disaggregated"),
        (["--attn-dp-size", "8"], "AttentionDataParallel"),
        (["--enable-lora"], "NotBesideADrafter"),
        (["--lora-paths", "a=/models/a"], "NotBesideADrafter"),
        (["--enable-hierarchical-cache"], "NotBesideADrafter"),
        (["--weight-cache-mode", "client"], "NotBesideADrafter"),
        (["--pp-size", "2"], "PipelineWithEagle3"),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
def test_what_was_never_tried_beside_swaps_is_refused_by_name(words: list[str], code: str):
    given = Arguments(parsed([*launched().argv[3:], *words]))
    outcome = judged(llama(), PROFILE.version, target=target(), arguments=given, patches=PLUGIN_PATCHES)
    assert codes(outcome) == {code: "Error"}
    assert words[0] in outcome.report.blocking[0].sentence


def test_a_weight_cache_that_is_off_is_none():
    given = Arguments(parsed([*launched().argv[3:], "--weight-cache-mode", "off"]))
    outcome = judged(llama(), PROFILE.version, target=target(), arguments=given, patches=PLUGIN_PATCHES)
    assert codes(outcome) == {}
