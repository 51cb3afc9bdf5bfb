"""What is one revision, and what needs a restart."""

from __future__ import annotations

import json

import pytest
from tests.support.scenario_world import SETTINGS, server

from specdec.preflight.facts import Convention, Declared
from specdec.rollout.launch import arguments
from specdec.rollout.revisions import content, drafter_ref, model_path, name, restart_hash
from specdec.rollout.world import RevisionRecord

BASE = content(server("v1"), SETTINGS)


def test_a_revision_survives_json():
    assert json.loads(json.dumps(BASE)) == BASE


def test_its_name_is_the_servers_and_ten_digits():
    assert name(server("v1"), BASE).removeprefix("kimi-").isalnum()
    assert len(name(server("v1"), BASE)) == len("kimi-") + 10


@pytest.mark.parametrize(
    ("changed", "renamed", "restarted"),
    [
        (server("v2"), True, False),
        (server("v1", drafter={"version": "better-name"}), True, False),
        (server("v1", drafter={"layers": {"convention": "Output"}}), True, False),
        (server(None), True, True),
        (server("v1", speculation={"numSteps": 4}), True, True),
        (server("v1", target={"servedName": "k"}), True, True),
        (server("v1", engine={"contextLength": 4096}), True, True),
        (server("v1", engine={"image": "registry.example/specdec/engine:2"}), True, True),
        (server("v1", engine={"volumes": ["more"]}), True, True),
        (server("v1", engine={"volumes": ["models"]}), False, False),
        (server("v1", engine={"stallSeconds": 60}), False, False),
        (server("v1", acceptance={"minAcceptLength": "2.2"}), False, False),
        (server("v1", rollout={"paused": True}), False, False),
        (server("v1", replicas=3), False, False),
        (server("v1", speculation={"numSteps": 3}), False, False),
    ],
)
def test_what_changes_name_and_restart_hash(changed, renamed, restarted):
    other = content(changed, SETTINGS)
    assert (name(changed, other) != name(changed, BASE)) == renamed
    assert (restart_hash(other) != restart_hash(BASE)) == restarted


def test_a_drafter_from_a_mounted_claim_needs_no_restart_and_one_from_another_does():
    volumes = {"engine": {"volumes": ["more"]}}
    mounted = content(server("v1", **volumes), SETTINGS)
    elsewhere = {"drafter": {"model": "pvc://more/v2"}}
    assert restart_hash(content(server("v1", **volumes, **elsewhere), SETTINGS)) == restart_hash(mounted)
    assert restart_hash(content(server("v1", **elsewhere), SETTINGS)) != restart_hash(BASE)


def test_paths_are_below_the_claims_mount():
    assert model_path("pvc://models/drafters/v1") == "/models/models/drafters/v1"
    ref = drafter_ref(RevisionRecord("kimi-1", 1, BASE))
    assert (ref.revision, ref.version, ref.path) == ("kimi-1", "v1", "/models/models/drafters/v1")


def test_what_a_person_says_of_the_layers_reaches_the_engine():
    said = {"ids": [-1, 2, 30], "convention": "Output"}
    made = content(server("v1", drafter={"layers": said}), SETTINGS)
    ref = drafter_ref(RevisionRecord("kimi-1", 1, json.loads(json.dumps(made))))
    assert ref.layers.declared == Declared((-1, 2, 30), Convention.OUTPUT)
    assert drafter_ref(RevisionRecord("kimi-1", 1, BASE)).layers is None
    assert "layers" not in BASE["drafter"], "revisions from before the field keep their names"


def test_engine_inputs_become_arguments():
    engine = {"tensorParallel": 8, "contextLength": 4096, "memFractionStatic": "0.85", "maxTotalTokens": 9999}
    made = RevisionRecord("kimi-1", 1, content(server("v1", engine=engine), SETTINGS))
    assert arguments(made) == (
        "--tp-size", "8", "--context-length", "4096", "--max-running-requests", "48",
        "--max-total-tokens", "9999", "--mem-fraction-static", "0.85",
    )  # fmt: skip
