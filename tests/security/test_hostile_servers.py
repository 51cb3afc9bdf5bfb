"""Hostile servers: refused by the CRD, and harmless to the builder where they come past it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openapi_schema_validator import OAS30Validator
from pydantic import BaseModel, ValidationError
from tests.security.corpus import HARMLESS, MINIMAL, REFUSED, SMUGGLED, server
from tests.support.podsecurity import violations

from specdec.api import crd
from specdec.api.drafter import Drafter
from specdec.api.preflight import Preflight, PreflightMode
from specdec.api.v1alpha1 import Engine, SpecDecodeServer, SpecDecodeServerSpec, Target
from specdec.controller.kube import KubeError
from specdec.controller.observe import observed
from specdec.controller.store import Store
from specdec.engine.protocol import PLAN_KEY, LaunchPlan
from specdec.resources.labels import SERVER, selector
from specdec.rollout.plan import plan
from specdec.rollout.world import ClaimView, Plan, Settings, World

SETTINGS = Settings("registry.example/engine:1", ("registry.example/",))
KEY = ("default", "hostile")
NEW = {"name": "hostile", "namespace": "default"}
"""Metadata of a server that the API server does not know yet."""
NOW = 1_800_000_000.0
ENVIRONMENT = {
    "POD_NAME", "POD_NAMESPACE", "POD_UID", "HOME", "XDG_CACHE_HOME", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR",
}  # fmt: skip
KINDS = {"ConfigMap", "Service", "PodDisruptionBudget", "StatefulSet", "ControllerRevision", "Job"}
OPTIONS = {
    "--tp-size",
    "--context-length",
    "--max-running-requests",
    "--max-total-tokens",
    "--mem-fraction-static",
}
LARGEST = 64 << 10


def planned(of: SpecDecodeServer) -> Plan:
    """What the operator does about a new server whose claims all exist: before its preflight, and without one."""
    everything = tuple(ClaimView(name, exists=True, access_modes=("ReadWriteMany",)) for name in names(of))
    off = of.spec.model_copy(update={"preflight": Preflight(mode=PreflightMode.OFF)})
    first, then = (
        plan(World(one, SETTINGS, claims=everything), {}, NOW)
        for one in (of, of.model_copy(update={"spec": off}))
    )
    return replace(then, objects=(*then.objects, *(item for item in first.objects if item["kind"] == "Job")))


def names(of: SpecDecodeServer) -> set[str]:
    models = [of.spec.target.model, *([of.spec.drafter.model] if of.spec.drafter else [])]
    return {uri.removeprefix("pvc://").partition("/")[0] for uri in models} | {*of.spec.engine.volumes}


def harmless(of: SpecDecodeServer, made: Plan) -> None:
    """Check that objects do no more than a server may."""
    for item in made.objects:
        assert item["kind"] in KINDS
        assert item["metadata"]["namespace"] == of.namespace
        assert len(json.dumps(item)) < LARGEST
        if item["kind"] == "StatefulSet":
            harmless_pod(of, item["spec"]["template"])
        if item["kind"] == "Job":
            harmless_job(of, item)
        if item["kind"] == "ConfigMap":
            harmless_plan(LaunchPlan.model_validate_json(item["data"][PLAN_KEY]))


def harmless_pod(of: SpecDecodeServer, template: dict[str, Any]) -> None:
    pod = template["spec"]
    assert violations(pod) == []
    assert pod["automountServiceAccountToken"] is False
    assert not {"serviceAccountName", "nodeName", "initContainers", "hostAliases"} & set(pod)
    (container,) = pod["containers"]
    assert not {"command", "args", "envFrom", "lifecycle"} & set(container)
    assert {item["name"] for item in container["env"]} == ENVIRONMENT
    assert not [item for item in container["env"] if "$" in item.get("value", "")]
    assert container["image"].startswith("registry.example/")
    assert ".." not in container["image"]
    kinds = {kind for volume in pod["volumes"] for kind in set(volume) - {"name"}}
    assert kinds <= {"configMap", "emptyDir", "persistentVolumeClaim"}
    for mount in container["volumeMounts"]:
        assert ".." not in mount["mountPath"].split("/")
        assert mount.get("readOnly") or not mount["mountPath"].startswith("/models")
    assert selector(of).items() <= template["metadata"]["labels"].items()
    assert template["metadata"]["labels"][SERVER] == of.name


def harmless_job(of: SpecDecodeServer, job: dict[str, Any]) -> None:
    """Check that a preflight takes nothing and gives nothing but its answer."""
    template = job["spec"]["template"]
    pod = template["spec"]
    assert violations(pod) == []
    assert pod["automountServiceAccountToken"] is False
    assert not {"serviceAccountName", "nodeName", "initContainers", "hostAliases"} & set(pod)
    (container,) = pod["containers"]
    assert container["args"] == ["preflight"]
    assert not {"command", "envFrom", "lifecycle", "ports"} & set(container)
    environment = {item["name"]: item.get("value", "") for item in container["env"]}
    assert set(environment) == {"POD_UID", "SPECDEC_PLAN", "HOME"}
    assert not [value for value in environment.values() if "$" in value]
    harmless_plan(LaunchPlan.model_validate_json(environment["SPECDEC_PLAN"]))
    assert container["image"].startswith("registry.example/")
    assert ".." not in container["image"]
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert not [name for kind in container["resources"].values() for name in kind if "/" in name]
    kinds = {kind for volume in pod["volumes"] for kind in set(volume) - {"name"}}
    assert kinds <= {"emptyDir", "persistentVolumeClaim"}
    writable = [mount["mountPath"] for mount in container["volumeMounts"] if not mount.get("readOnly")]
    assert writable == ["/tmp"]
    assert all(
        volume.get("persistentVolumeClaim", {"readOnly": True})["readOnly"] for volume in pod["volumes"]
    )
    labels = template["metadata"]["labels"]
    assert not selector(of).items() <= labels.items()
    assert labels[SERVER] == of.name
    assert job["spec"]["activeDeadlineSeconds"] <= 900


def harmless_plan(launch: LaunchPlan) -> None:
    for path in [launch.target_path, *([launch.drafter.path] if launch.drafter else [])]:
        assert path.startswith("/models/")
        assert ".." not in path
        assert path.isprintable()
    options = [part for part in launch.arguments if part.startswith("-")]
    assert set(options) <= OPTIONS
    assert len(launch.arguments) == 2 * len(options)


def closed(node: dict[str, Any]) -> dict[str, Any]:
    """Make unknown fields an error, as kubectl has the API server do."""
    node = {key: closed(value) if key == "items" else value for key, value in node.items()}
    if "properties" in node:
        node["properties"] = {name: closed(child) for name, child in node["properties"].items()}
        node["additionalProperties"] = False
    return node


SCHEMA = OAS30Validator(closed(crd.openapi()["properties"]["spec"]))


def test_the_corpus_is_large_enough_and_the_minimal_server_is_fine():
    assert len({json.dumps(spec) for spec in (REFUSED | SMUGGLED | HARMLESS).values()}) >= 150
    assert SCHEMA.is_valid(MINIMAL["spec"])
    assert planned(SpecDecodeServer.model_validate(MINIMAL)).objects


@pytest.mark.parametrize("case", REFUSED)
def test_what_the_crd_refuses_is_refused_by_the_operator_too(case: str):
    with pytest.raises(ValidationError):
        SpecDecodeServer.model_validate(server(REFUSED[case]))


@pytest.mark.parametrize("case", REFUSED)
def test_a_stored_one_is_one_short_sentence_that_repeats_nothing(case: str):
    store = Store()
    store.put(server(REFUSED[case]) | {"metadata": MINIMAL["metadata"] | {"resourceVersion": "1"}})
    with pytest.raises(KubeError, match=r"^nothing is done: spec\.") as refusal:
        observed(KEY, store)
    assert len(str(refusal.value)) < 400
    assert str(refusal.value).isprintable()


@pytest.mark.parametrize("case", SMUGGLED)
def test_fields_that_there_are_not_are_unknown_and_come_to_nothing(case: str):
    assert not SCHEMA.is_valid(server(SMUGGLED[case])["spec"])
    of = SpecDecodeServer.model_validate(server(SMUGGLED[case]))
    made = planned(of)
    harmless(of, made)
    assert planned(SpecDecodeServer.model_validate(MINIMAL)).objects == made.objects


@pytest.mark.parametrize("case", HARMLESS)
def test_what_no_schema_refuses_is_harmless(case: str):
    of = SpecDecodeServer.model_validate(server(HARMLESS[case]))
    harmless(of, planned(of))


@pytest.mark.parametrize(
    "case", [case for case in HARMLESS if case.startswith("an image") and "digests" not in case]
)
def test_an_image_outside_the_prefixes_makes_nothing(case: str):
    made = planned(SpecDecodeServer.model_validate(server(HARMLESS[case])))
    assert made.objects == ()
    assert made.status.reason == "ImageNotAllowed"


def unchecked(model: type[BaseModel], raw: dict[str, Any]) -> Any:
    """Build a model of values that nobody has checked."""
    fields: dict[str, Any] = {}
    for name, info in model.model_fields.items():
        alias = info.alias or name
        if alias not in raw:
            continue
        inner = _PARTS.get((model, name))
        fields[name] = unchecked(inner, raw[alias]) if inner else raw[alias]
    return model.model_construct(**fields)


_PARTS: dict[tuple[type[BaseModel], str], type[BaseModel]] = {
    (SpecDecodeServer, "spec"): SpecDecodeServerSpec,
    (SpecDecodeServerSpec, "target"): Target,
    (SpecDecodeServerSpec, "drafter"): Drafter,
    (SpecDecodeServerSpec, "engine"): Engine,
}


@pytest.mark.parametrize(
    "case", [case for case in REFUSED if case.startswith(("target", "drafter", "served"))]
)
def test_the_builder_makes_nothing_of_models_and_names_that_nobody_has_checked(case: str):
    with pytest.raises(ValueError, match=r"pvc://CLAIM/FOLDER|should (match pattern|have at most)"):
        planned(unchecked(SpecDecodeServer, server(REFUSED[case])))


TEXTS = st.text(max_size=80) | st.sampled_from(["..", "pvc://a/b", "registry.example/x", "0.5", "1Gi", "--x"])
ENGINES = st.fixed_dictionaries(
    {},
    optional={
        "image": TEXTS,
        "podLabels": st.dictionaries(TEXTS, TEXTS, max_size=4),
        "volumes": st.lists(TEXTS, max_size=3),
        "cacheClaim": TEXTS,
        "warmupPrompts": TEXTS,
        "imagePullSecrets": st.lists(TEXTS, max_size=3),
        "memFractionStatic": TEXTS,
        "sharedMemory": TEXTS,
        "contextLength": st.integers() | TEXTS,
        "resources": st.fixed_dictionaries({"limits": st.dictionaries(TEXTS, TEXTS, max_size=3)}),
        "scheduling": st.fixed_dictionaries({"nodeSelector": st.dictionaries(TEXTS, TEXTS, max_size=3)}),
    },
)
SPECS = st.fixed_dictionaries(
    {"target": st.fixed_dictionaries({"model": TEXTS}, optional={"servedName": TEXTS})},
    optional={
        "drafter": st.fixed_dictionaries({"model": TEXTS}, optional={"version": TEXTS}),
        "engine": ENGINES,
        "replicas": st.integers(),
        "rollout": st.fixed_dictionaries({"pinnedRevision": TEXTS}),
    },
)


@given(SPECS)
@settings(max_examples=300, deadline=None)
def test_any_spec_is_refused_or_harmless(spec: dict[str, Any]):
    try:
        of = SpecDecodeServer.model_validate(MINIMAL | {"spec": spec})
    except ValidationError:
        return
    harmless(of, planned(of))


@given(ENGINES, TEXTS)
@settings(max_examples=300, deadline=None)
def test_any_engine_beside_sound_models_is_refused_or_harmless(engine: dict[str, Any], pin: str):
    try:
        of = SpecDecodeServer.model_validate(server({"engine": engine, "rollout": {"pinnedRevision": pin}}))
    except ValidationError:
        return
    harmless(of, planned(of))


@pytest.mark.cluster
@pytest.mark.usefixtures("crd")
@pytest.mark.parametrize("case", [*REFUSED, *SMUGGLED])
def test_the_real_api_server_refuses(case: str):
    from tests.support.servers import refused

    sentence = refused(server((REFUSED | SMUGGLED)[case]) | {"metadata": NEW})
    assert any(
        words in sentence for words in ('"hostile" is invalid: ', "unknown field", "Too long", "BadRequest")
    ), sentence


@pytest.mark.cluster
@pytest.mark.usefixtures("crd")
@pytest.mark.parametrize("case", HARMLESS)
def test_the_real_api_server_takes_what_is_harmless(case: str):
    from tests.support.kubectl import KubectlError
    from tests.support.servers import apply_server

    try:
        apply_server(server(HARMLESS[case]) | {"metadata": NEW}, "--dry-run=server")
    except KubectlError as error:
        # The schema takes any image; where the chart is installed, its policy does not.
        if "image" not in HARMLESS[case].get("engine", {}):
            raise
        assert "begins with none of the prefixes" in str(error)  # noqa: PT017 - taken or refused so
