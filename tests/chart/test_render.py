"""What the chart renders: golden files, valid for every Kubernetes that it names, one source for CRD and example."""

from __future__ import annotations

import io
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from tests.support import golden as files
from tests.support.chart import CHART, EXAMPLE, EXAMPLE_VALUES, example, helm, of_kind, render
from tests.support.golden import Compare, golden
from tests.support.paths import ROOT
from tests.support.podsecurity import violations

__all__ = ["golden"]
CASES = files.cases("chart")
MINORS = ("1.30.0", "1.34.0", "1.37.0")
"""The oldest that the chart takes, the one of the test cluster, the newest that is out."""
OF_OTHERS = {"PodMonitor", "ServiceMonitor", "PrometheusRule"}
"""Kinds of the Prometheus operator, which Kubernetes has no schema of."""
CRD = ROOT / "crds" / "specdecodeservers.yaml"


def values(case: str) -> Path:
    return files.DATA / "chart" / f"{case}.input.yaml"


def test_helm_finds_nothing_to_complain_about():
    for case in CASES:
        helm("lint", "--strict", str(CHART), f"--values={values(case)}")


@pytest.mark.parametrize("case", CASES)
def test_manifests_are_as_in_the_golden_file(case: str, golden: Compare):
    made = render(values(case))
    # The CRD, the rules and the dashboard have their own files and tests.
    shown = [item for item in made if item["kind"] not in ("CustomResourceDefinition", "PrometheusRule")]
    golden("chart", case, [item for item in shown if not item["metadata"]["name"].endswith("-dashboard")])


@pytest.mark.parametrize("minor", MINORS)
@pytest.mark.parametrize("case", CASES)
def test_manifests_fit_the_schemas_of_kubernetes(case: str, minor: str):
    for manifest in render(values(case), kubernetes=minor):
        if manifest["kind"] not in OF_OTHERS:
            kubernetes_validate.validate(manifest, minor, strict=True)


def test_a_field_that_kubernetes_does_not_know_is_found():
    (deployment,) = of_kind(render(values("cluster-wide")), "Deployment")
    deployment["spec"]["replica"] = 1
    with pytest.raises(kubernetes_validate.ValidationError, match="replica"):
        kubernetes_validate.validate(deployment, MINORS[0], strict=True)


@pytest.mark.parametrize("case", CASES)
def test_the_operator_meets_the_restricted_pod_security_standard(case: str):
    (deployment,) = of_kind(render(values(case)), "Deployment")
    assert violations(deployment["spec"]["template"]["spec"]) == []


@pytest.mark.parametrize("keep", [True, False])
def test_the_crd_is_the_one_of_the_repository_and_stays_if_wished(keep: bool):
    (crd,) = of_kind(render(values("cluster-wide"), {"crds.keep": keep}), "CustomResourceDefinition")
    annotations = crd["metadata"].pop("annotations", {})
    assert annotations == ({"helm.sh/resource-policy": "keep"} if keep else {})
    assert crd == yaml.safe_load(CRD.read_text())


def test_the_crd_can_be_left_to_others():
    assert not of_kind(render(values("cluster-wide"), {"crds.enabled": False}), "CustomResourceDefinition")


def test_the_package_holds_the_crd_itself_and_no_link(tmp_path: Path):
    helm("package", str(CHART), "--destination", str(tmp_path))
    (package,) = tmp_path.glob("*.tgz")
    with tarfile.open(fileobj=io.BytesIO(package.read_bytes())) as archive:
        member = archive.extractfile("specdec-operator/files/crds/specdecodeservers.yaml")
        assert member is not None
        assert member.read() == CRD.read_bytes()


def test_the_example_is_what_the_chart_renders():
    assert EXAMPLE.read_text() == example(), "run `make generate` and review git diff"


def test_the_example_has_the_parts_of_an_installation():
    kinds = [item["kind"] for item in yaml.safe_load_all(EXAMPLE.read_text())]
    assert kinds == [
        "Namespace", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "Deployment",
    ]  # fmt: skip


def test_every_setting_of_the_operator_that_the_chart_sets_is_one():
    from specdec.controller.settings import OperatorSettings

    (deployment,) = of_kind(render(values("everything"), {"namespaces": ["a"]}), "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    env = {item["name"]: item.get("value", "from-the-pod") for item in container["env"]}
    names = {f"SPECDEC_{field.upper()}" for field in OperatorSettings.model_fields}
    assert set(env) - names == set()
    plain = {name.removeprefix("SPECDEC_").lower(): value for name, value in env.items()}
    read: dict[str, Any] = OperatorSettings.model_validate(plain).model_dump()
    assert read["namespaces"] == ("a",)
    assert read["image_prefixes"] == ("registry.example/", "other.example:5000/engines/")
    assert (read["workers"], read["pollers"], read["log_level"]) == (16, 128, "DEBUG")


@pytest.mark.parametrize(
    ("values", "namespaces"),
    [((), ["specdec-system"]), (("--set=namespaces={a,b}",), ["specdec-system", "a", "a"])],
    ids=["cluster-wide", "namespaced"],
)
def test_installing_tells_three_commands(values: tuple[str, ...], namespaces: list[str]):
    command = [*_dry_run(), f"--values={EXAMPLE_VALUES}", *values]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    notes = done.stdout.partition("NOTES:")[2]
    commands = [line.split() for line in notes.splitlines() if line.strip().startswith("kubectl ")]
    assert [words[1] for words in commands] == ["get", "apply", "wait"]
    named = [words[words.index("-n") + 1] for words in commands if "-n" in words]
    assert named == namespaces


def _dry_run() -> list[str]:
    from tests.support.chart import tool

    place = ("specdec-operator", str(CHART), "--namespace=specdec-system")
    return [tool("helm"), "install", *place, "--dry-run=client"]
