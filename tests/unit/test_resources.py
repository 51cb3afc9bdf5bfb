"""Manifests: golden files, restricted pod security, and what must never change by our hand alone."""

import copy
from typing import Any

import pytest
from tests.support import golden as files
from tests.support.golden import Compare, golden
from tests.support.podsecurity import violations

from specdec.api.v1alpha1 import SpecDecodeServer
from specdec.engine.protocol import AGENT_PORT, ENGINE_PORT, LaunchPlan
from specdec.resources import (
    controller_revision,
    launch_plan_of,
    manifests,
    preflight_job,
    revision_record,
)  # fmt: skip
from specdec.resources.labels import REVISION_OF, is_engine, selector
from specdec.rollout import revisions
from specdec.rollout.world import RevisionRecord, Settings, World

__all__ = ["golden"]
CASES = files.cases("resources")
SETTINGS = Settings(
    default_image="registry.example/specdec-engine:default", image_prefixes=("registry.example/",)
)


def server(case: str, **spec: Any) -> SpecDecodeServer:
    raw = files.read("resources", case)
    raw["spec"] |= spec
    return SpecDecodeServer.model_validate(raw)


def record(of: SpecDecodeServer) -> RevisionRecord:
    data = revisions.content(of, SETTINGS)
    return RevisionRecord(name=revisions.name(of, data), number=1, data=data)


def launch_plan(of: SpecDecodeServer, revision: RevisionRecord) -> LaunchPlan:
    return LaunchPlan(
        assignment=1,
        server=f"{of.namespace}/{of.name}",
        revision=revision.name,
        target_path=revisions.model_path(of.spec.target.model),
        served_name=of.spec.target.served_name or of.name,
        drafter=revisions.drafter_ref(revision),
        num_steps=of.spec.num_steps,
        preflight=of.spec.preflight,
    )


def made(of: SpecDecodeServer, **world: Any) -> list[dict[str, Any]]:
    revision = record(of)
    return list(manifests(World(of, SETTINGS, **world), launch_plan(of, revision), revision))


def one(objects: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    (found,) = [item for item in objects if item["kind"] == kind]
    return found


@pytest.mark.parametrize("case", CASES)
def test_manifests_are_as_in_the_golden_file(case: str, golden: Compare):
    golden("resources", case, made(server(case)))


@pytest.mark.parametrize("case", CASES)
def test_pods_meet_the_restricted_pod_security_standard(case: str):
    pod = one(made(server(case)), "StatefulSet")["spec"]["template"]["spec"]
    assert violations(pod) == []


def job(case: str, **spec: Any) -> dict[str, Any]:
    of = server(case, **spec)
    return preflight_job(of, record(of), launch_plan(of, record(of)), "registry.example/engine:1")


def test_kubernetes_finds_nothing_to_expand_in_a_preflights_plan():
    of = server("minimal")
    order = launch_plan(of, record(of)).model_copy(update={"served_name": "$(POD_UID) $$(HOME) $5"})
    made = preflight_job(of, record(of), order, "registry.example/engine:1")
    (container,) = made["spec"]["template"]["spec"]["containers"]
    (text,) = [item["value"] for item in container["env"] if item["name"] == "SPECDEC_PLAN"]
    assert "$" not in text
    assert LaunchPlan.model_validate_json(text) == order


@pytest.mark.parametrize("case", CASES)
def test_the_preflights_job_is_restricted_and_takes_no_gpu(case: str):
    pod = job(case)["spec"]["template"]["spec"]
    assert violations(pod) == []
    assert set(pod["containers"][0]["resources"]["requests"]) == {"cpu", "memory"}
    assert pod["automountServiceAccountToken"] is False


def test_the_preflight_runs_where_engines_may():
    engine = one(made(server("full")), "StatefulSet")["spec"]["template"]["spec"]
    pod = job("full")["spec"]["template"]["spec"]
    for field in ("nodeSelector", "tolerations", "priorityClassName", "imagePullSecrets"):
        assert pod[field] == engine[field]


def test_no_service_budget_or_workload_takes_a_preflight_for_an_engine():
    of = server("full")
    labels = job("full")["spec"]["template"]["metadata"]["labels"]
    assert not selector(of).items() <= labels.items()
    assert not is_engine({"metadata": {"labels": labels}})


def test_a_preflights_job_is_named_after_all_that_its_answer_depends_on():
    names = {
        job("full", **spec)["metadata"]["name"]
        for spec in (
            {},
            {"drafter": {"model": "pvc://drafters/other"}},
            {"preflight": {"skipChecks": ["HeadTied"]}},
            {"speculation": {"numSteps": 5}},
            {"engine": {"scheduling": {"nodeSelector": {"a": "b"}}}},
        )
    }
    assert len(names) == 5
    assert job("full") == job("full")
    assert max(map(len, names)) <= 63


def test_the_checker_of_pod_security_sees_what_is_wrong():
    pod = copy.deepcopy(one(made(server("minimal")), "StatefulSet")["spec"]["template"]["spec"])
    pod["hostNetwork"] = True
    pod["volumes"].append({"name": "host", "hostPath": {"path": "/"}})
    pod["containers"][0]["securityContext"]["capabilities"]["add"] = ["SYS_ADMIN"]
    assert violations(pod) == ["volume host", "hostNetwork", "capabilities"]


@pytest.mark.parametrize("case", CASES)
def test_every_object_belongs_to_its_server(case: str):
    of = server(case)
    for manifest in [*made(of), controller_revision(of, record(of))]:
        (owner,) = manifest["metadata"]["ownerReferences"]
        assert (owner["uid"], owner["controller"]) == (of.metadata["uid"], True)
        assert manifest["metadata"]["namespace"] == of.namespace
        # blockOwnerDeletion would need rights on the owner's finalizers, and hold its deletion up.
        assert "blockOwnerDeletion" not in owner


def test_the_pod_writes_nowhere_but_into_its_volumes():
    container = one(made(server("full")), "StatefulSet")["spec"]["template"]["spec"]["containers"][0]
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    writable = {mount["mountPath"] for mount in container["volumeMounts"] if not mount.get("readOnly")}
    assert writable == {"/var/lib/specdec", "/run/specdec", "/cache", "/tmp", "/dev/shm"}


def test_claims_are_mounted_read_only_under_their_names():
    pod = one(made(server("full")), "StatefulSet")["spec"]["template"]["spec"]
    mounts = pod["containers"][0]["volumeMounts"]
    models = {mount["mountPath"]: mount for mount in mounts if mount["mountPath"].startswith("/models/")}
    assert set(models) == {"/models/kimi", "/models/drafters", "/models/more-drafters"}
    assert all(mount["readOnly"] for mount in models.values())


def test_operator_labels_win_over_the_users():
    template = one(made(server("full")), "StatefulSet")["spec"]["template"]
    assert template["metadata"]["labels"]["team"] == "inference"
    assert template["metadata"]["labels"]["specdec.dev/server"] == "kimi"
    assert selector(server("full")).items() <= template["metadata"]["labels"].items()


def test_the_partition_holds_every_pod_at_rest():
    spec = one(made(server("full")), "StatefulSet")["spec"]
    assert spec["updateStrategy"]["rollingUpdate"]["partition"] == spec["replicas"] == 3


def test_a_template_that_only_our_builder_changed_stays_as_it_stands():
    standing = copy.deepcopy(one(made(server("minimal")), "StatefulSet"))
    standing["spec"]["template"]["spec"]["containers"][0]["env"] = [{"name": "OLD", "value": "1"}]
    again = one(made(server("minimal"), workload=standing), "StatefulSet")
    assert again["spec"]["template"] == standing["spec"]["template"]


def test_a_template_of_other_inputs_is_made_anew():
    standing = one(made(server("minimal")), "StatefulSet")
    changed = one(made(server("minimal", speculation={"numSteps": 5}), workload=standing), "StatefulSet")
    assert changed["spec"]["template"] != standing["spec"]["template"]


def test_pods_are_made_from_the_revision_that_is_served_though_the_spec_asks_for_another():
    good = server("minimal")
    spec = good.spec.model_dump(by_alias=True, exclude_unset=True)
    inputs = {
        "sharedMemory": "64Gi",
        "scheduling": {"nodeSelector": {"gpu": "none"}},
        "podLabels": {"a": "b"},
    }
    rejected = SpecDecodeServer.model_validate(
        {"metadata": good.metadata, "spec": {**spec, "engine": inputs}}
    )
    revision = record(good)
    back = manifests(World(rejected, SETTINGS), launch_plan(good, revision), revision)
    template = one(list(back), "StatefulSet")["spec"]["template"]
    assert template == one(made(good), "StatefulSet")["spec"]["template"]


def test_a_new_drafter_version_of_the_same_claim_leaves_the_template_alone():
    before = one(made(server("minimal")), "StatefulSet")
    after = one(made(server("minimal", drafter={"model": "pvc://models/drafters/v2"})), "StatefulSet")
    assert after["spec"]["template"] == before["spec"]["template"]


def test_a_pod_may_end_after_its_drain():
    pod = one(made(server("full")), "StatefulSet")["spec"]["template"]["spec"]
    assert pod["terminationGracePeriodSeconds"] == 5 + 120 + 20


def test_agents_are_found_before_they_are_ready_and_users_only_after():
    named = {item["metadata"]["name"]: item for item in made(server("minimal")) if item["kind"] == "Service"}
    assert named["demo-engines"]["spec"]["publishNotReadyAddresses"] is True
    assert "publishNotReadyAddresses" not in named["demo"]["spec"]
    assert [port["port"] for port in named["demo"]["spec"]["ports"]] == [ENGINE_PORT]
    assert [port["port"] for port in named["demo-engines"]["spec"]["ports"]] == [ENGINE_PORT, AGENT_PORT]


def test_the_launch_plan_survives_its_config_map():
    of = server("full")
    plan = launch_plan(of, record(of))
    assert launch_plan_of(one(made(of), "ConfigMap")) == plan


def test_a_revision_survives_its_controller_revision():
    of = server("minimal")
    written = RevisionRecord(
        **{**record(of).__dict__, "outcome": "Rejected", "reason": "DeadDrafter", "digest": "sha256:1"}
    )
    assert revision_record(controller_revision(of, written)) == written


def test_the_stateful_set_does_not_adopt_our_revisions():
    of = server("minimal")
    labels = controller_revision(of, record(of))["metadata"]["labels"]
    assert not selector(of).items() <= labels.items()
    assert labels[REVISION_OF] == "demo"


@pytest.mark.parametrize(
    ("label", "kept"),
    [
        ("team", True),
        ("example.org/team", True),
        ("kueue.x-k8s.io/queue-name", True),
        ("notspecdec.dev/server", True),
        ("specdec.dev/server", False),
        ("x.specdec.dev/server", False),
        ("app.kubernetes.io/name", False),
        ("node.k8s.io/name", False),
        ("k8s.io/name", False),
    ],
)
def test_a_label_of_the_user_is_kept_unless_its_domain_is_reserved(label, kept):
    labelled = server("minimal", engine={"podLabels": {label: "mine"}})
    found = one(made(labelled), "StatefulSet")["spec"]["template"]["metadata"]["labels"]
    assert (found.get(label) == "mine") is kept
