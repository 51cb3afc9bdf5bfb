"""Bad input on the real cluster: one useful sentence, nothing half-applied, mended by the next apply."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.kubectl import KubectlError, condition, get, items, wait_condition, wait_for
from tests.support.servers import apply_server, claim, engine_pods, refused, server, wait_current

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]


@pytest.mark.parametrize(
    ("spec", "field", "allowed"),
    [
        ({"speculation": {"numSteps": -1}}, "spec.speculation.numSteps", "1"),
        ({"replicas": -2}, "spec.replicas", "0"),
        ({"drafter": None, "acceptance": None, "speculation": {"numSteps": 3}}, "speculation.numSteps", "drafter.model"),
        ({"drafter": {"model": "pvc://models/../secrets"}}, "spec.drafter.model", "must not contain '..'"),
        ({"drafter": {"model": "/models/v1"}}, "spec.drafter.model", "must be pvc://CLAIM/FOLDER"),
        ({"acceptance": {"minAcceptLength": "4.5"}}, "acceptance.minAcceptLength is 4.5", "is 4"),
        ({"acceptance": {"minAcceptLength": "-1"}}, "spec.acceptance.minAcceptLength", ""),
        ({"preflight": {"skipChecks": ["NoSuchCode"]}}, "spec.preflight.skipChecks[0]", "docs/reference/preflight.md lists them"),
        ({"preflight": {"skipChecks": ["NoSuchCode"]}}, "NoSuchCode is no code of a finding", "--explain CODE"),
        ({"preflight": {"mode": "Sometimes"}}, "spec.preflight.mode", '"Enforce", "Warn", "Off"'),
        ({"target": {"model": "https://example.com/model"}}, "spec.target.model", "must be pvc://CLAIM/FOLDER"),
    ],
)  # fmt: skip
def test_admission_refuses_and_names_the_field_and_what_is_allowed(
    namespace: str, spec: Any, field: str, allowed: str
):
    sentence = refused(server(namespace, "good", "v1", **spec))
    assert field in sentence
    assert allowed in sentence


def test_kubectl_refuses_unknown_fields(namespace: str):
    assert 'unknown field "spec.numStep"' in refused(server(namespace, "good", "v1", numStep=3))


def stalled(namespace: str, reason: str) -> dict[str, Any]:
    """Wait, 60 s at most, until the server says that it is stuck for a reason."""

    def look() -> dict[str, Any] | None:
        thing = get("sds", "kimi", namespace)
        found = condition(thing, "Stalled")
        return found if (found.get("status"), found.get("reason")) == ("True", reason) else None

    found: dict[str, Any] = wait_for(f"Stalled=True ({reason})", 60, look)
    return found


def test_a_claim_that_does_not_exist_is_named(namespace: str):
    apply_server(server(namespace, "good", "v1", drafter={"model": "pvc://nowhere/good"}))
    assert "nowhere" in stalled(namespace, "ClaimNotFound")["message"]


def test_an_image_outside_the_allowed_prefixes_creates_nothing(namespace: str):
    def refusal() -> str:
        try:
            apply_server(server(namespace, "good", "v1", engine={"image": "evil.example/engine:1"}))
        except KubectlError as error:
            return str(error)
        return ""

    # The API server takes the chart's policy up after a moment; until then the operator refuses.
    sentence = str(wait_for("the policy to be in force", 30, refusal))
    assert "begins with none of the prefixes that this installation allows: localhost/" in sentence
    assert items("statefulsets", namespace) == []


def test_several_replicas_need_a_claim_that_several_nodes_can_mount(namespace: str):
    claim(namespace, name="single", mode="ReadWriteOnce")
    apply_server(
        server(
            namespace,
            "good",
            "v1",
            replicas=2,
            target={"model": "pvc://single/kimi"},
            drafter={"model": "pvc://single/good"},
        )
    )
    message = stalled(namespace, "ClaimAccessMode")["message"]
    assert "single" in message
    assert "ReadOnlyMany" in message


def test_an_image_that_does_not_pull_is_named(namespace: str):
    apply_server(server(namespace, "good", "v1", engine={"image": "localhost/no-such-engine:1"}))
    assert "localhost/no-such-engine:1" in stalled(namespace, "ImagePullFailed")["message"]


def test_a_drafter_folder_that_is_not_there_is_named(namespace: str):
    apply_server(server(namespace, "no-such-folder", "v1"))
    assert "no-such-folder" in stalled(namespace, "DrafterNotFound")["message"]


def test_the_next_apply_mends_all_that_without_a_delete(namespace: str):
    apply_server(server(namespace, "good", "v1"))
    thing = wait_current(namespace, seconds=300)
    assert thing["status"]["active"]["version"] == "v1"
    assert condition(thing, "Stalled")["status"] == "False"


def test_a_missing_folder_of_a_later_version_leaves_the_active_one_serving(namespace: str):
    uid = engine_pods(namespace)[0]["metadata"]["uid"]
    apply_server(server(namespace, "no-such-folder", "v2"))
    assert "no-such-folder" in stalled(namespace, "DrafterNotFound")["message"]
    assert engine_pods(namespace)[0]["metadata"]["uid"] == uid
    wait_condition("kimi", namespace, "Ready", "True", 10)
