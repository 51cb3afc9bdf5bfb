"""The CRD on the real API server: what admission takes, and the sentence for what it refuses."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.kubectl import KubectlError, apply, kubectl
from tests.support.merge import merged
from tests.support.paths import ROOT
from tests.support.servers import apply_server

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(120)]

MINIMAL = {
    "apiVersion": "specdec.dev/v1alpha1",
    "kind": "SpecDecodeServer",
    "metadata": {"name": "crd", "namespace": "default"},
    "spec": {"target": {"model": "pvc://models/target"}, "drafter": {"model": "pvc://models/v1"}},
}

VALID: dict[str, dict[str, Any]] = {
    "minimal": {},
    "without a drafter": {"drafter": None},
    "a floor at the most that is possible": {
        "speculation": {"numSteps": 4},
        "acceptance": {"minAcceptLength": "5.0"},
    },
    "a floor of 1": {"acceptance": {"minAcceptLength": "1"}},
    "a floor on the rate": {"acceptance": {"minAcceptRate": "0.35"}},
    "settings of the judge without a drafter": {"drafter": None, "acceptance": {"minRequests": 8}},
    "no replicas at all": {"replicas": 0},
    "a deep folder": {"drafter": {"model": "pvc://m/a/b/c/d/e/f/g/v1.0_x-y"}},
    # The installation under test allows images of localhost/ only.
    "a digest": {"engine": {"image": "localhost/e/specdec:v1@sha256:" + "a" * 64}},
    "everything of the engine": {
        "engine": {
            "tensorParallel": 8,
            "contextLength": 131072,
            "memFractionStatic": "0.88",
            "sharedMemory": "32Gi",
            "cacheClaim": "cache",
            "volumes": ["more"],
            "imagePullSecrets": ["pull"],
            "podLabels": {"team": "a"},
            "resources": {"requests": {"cpu": "500m"}, "limits": {"memory": "1Ti", "nvidia.com/gpu": "8"}},
            "scheduling": {
                "nodeSelector": {"gpu": "h200"},
                "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
                "spreadOver": "kubernetes.io/hostname",
                "priorityClassName": "high",
                "runtimeClassName": "nvidia",
            },
        }
    },
    "pinned and paused": {"rollout": {"paused": True, "pinnedRevision": "demo-1234567890"}},
    "layers of which only the convention is said": {"drafter": {"layers": {"convention": "Boundary"}}},
    "layers": {"drafter": {"layers": {"ids": [-1, 2, 30], "convention": "Output"}}},
    "observed only": {"mode": "Observe", "drafting": "Off"},
}

INVALID: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "negative steps": ({"speculation": {"numSteps": -1}}, ("spec.speculation.numSteps", "-1", "greater than or equal to 1")),
    "too many steps": ({"speculation": {"numSteps": 17}}, ("spec.speculation.numSteps", "less than or equal to 16")),
    "negative replicas": ({"replicas": -1}, ("spec.replicas", "greater than or equal to 0")),
    "steps without a drafter": (
        {"drafter": None, "speculation": {"numSteps": 3}},
        ("speculation.numSteps is set but there is no drafter", "give drafter.model, or remove speculation"),
    ),
    "a floor without a drafter": (
        {"drafter": None, "acceptance": {"minAcceptLength": "2"}},
        ("acceptance has a floor but there is no drafter",),
    ),
    "a path with dots": (
        {"drafter": {"model": "pvc://models/../../etc"}},
        ("spec.drafter.model", "must not contain '..'", "pvc://models/drafters/v1"),
    ),
    "an absolute path": ({"target": {"model": "/models/kimi"}}, ("spec.target.model", "must be pvc://CLAIM/FOLDER")),
    "an absolute path in a claim": ({"target": {"model": "pvc:///etc"}}, ("spec.target.model", "no absolute path")),
    "a claim without a folder": ({"target": {"model": "pvc://models"}}, ("spec.target.model", "1 to 8 path segments")),
    "a URL": ({"drafter": {"model": "https://example.com/x"}}, ("spec.drafter.model", "must be pvc://CLAIM/FOLDER")),
    "a floor out of reach": (
        {"acceptance": {"minAcceptLength": "4.5"}},
        ("acceptance.minAcceptLength is 4.5", "numSteps = 3", "can reach is 4", "lower the floor or raise numSteps"),
    ),
    "a floor out of reach of its steps": (
        {"speculation": {"numSteps": 1}, "acceptance": {"minAcceptLength": "2.1"}},
        ("acceptance.minAcceptLength is 2.1", "numSteps = 1", "can reach is 2"),
    ),
    "a floor below 1": ({"acceptance": {"minAcceptLength": "0.9"}}, ("acceptance.minAcceptLength must be 1 or more",)),
    "a negative floor": ({"acceptance": {"minAcceptLength": "-1"}}, ("spec.acceptance.minAcceptLength",)),
    "a rate above 1": ({"acceptance": {"minAcceptRate": "1.2"}}, ("spec.acceptance.minAcceptRate",)),
    "a number where a decimal string belongs": (
        {"acceptance": {"minAcceptLength": 1.5}},
        ("spec.acceptance.minAcceptLength", "string"),
    ),
    "an unknown mode": ({"mode": "Maybe"}, ("spec.mode", "Enforce", "Observe")),
    "an unknown field": ({"numStep": 3}, ('unknown field "spec.numStep"',)),
    "a bad toleration": (
        {"engine": {"scheduling": {"tolerations": [{"operator": "Maybe"}]}}},
        ("spec.engine.scheduling.tolerations[0].operator",),
    ),
    "a quantity in words": ({"engine": {"sharedMemory": "lots"}}, ("spec.engine.sharedMemory",)),
    "layers that do not rise": (
        {"drafter": {"layers": {"ids": [30, 2], "convention": "Output"}}},
        ("spec.drafter.layers.ids", "must rise"),
    ),
    "a layer twice": (
        {"drafter": {"layers": {"ids": [2, 2], "convention": "Output"}}},
        ("spec.drafter.layers.ids", "Duplicate value"),
    ),
    "layers without a convention": ({"drafter": {"layers": {"ids": [2]}}}, ("spec.drafter.layers.convention", "Required")),
    "an unknown convention": (
        {"drafter": {"layers": {"convention": "output"}}},
        ("spec.drafter.layers.convention", "Output", "Boundary"),
    ),
    "no target": ({"target": None}, ("spec.target", "Required")),
}  # fmt: skip


def over(spec: dict[str, Any], **metadata: str) -> dict[str, Any]:
    return merged(MINIMAL, {"spec": spec, "metadata": metadata})


@pytest.mark.parametrize("case", VALID)
def test_admission_takes(case: str):
    apply_server(over(VALID[case]), "--dry-run=server")


@pytest.mark.parametrize("case", INVALID)
def test_admission_refuses_and_says_what_is_allowed(case: str):
    spec, words = INVALID[case]
    with pytest.raises(KubectlError) as refusal:
        apply_server(over(spec), "--dry-run=server")
    assert [word for word in words if word not in str(refusal.value)] == []


@pytest.mark.parametrize("name", ["9-lives", "a" * 49])
def test_names_that_services_can_not_have_are_refused(name: str):
    with pytest.raises(KubectlError, match=r"metadata\.name must be 1 to 48 lower-case letters"):
        apply_server(over({}, name=name), "--dry-run=server")


@pytest.mark.parametrize("name", ["minimal.yaml", "kimi-k2.5-eagle3.yaml"])
def test_examples_are_taken(name: str):
    apply((ROOT / "examples" / name).read_text(), "--dry-run=server")


def test_explain_reads_well():
    text = kubectl("explain", "sds.spec")
    assert "The small model that guesses; without it the target is served plainly." in text
    assert "ENUM:" in kubectl("explain", "sds.spec.mode")


def test_replicas_are_filled_in_for_the_scale_subresource():
    made = apply_server(over({}), "--dry-run=server", "-o", "jsonpath={.spec.replicas}")
    assert made == "1"
