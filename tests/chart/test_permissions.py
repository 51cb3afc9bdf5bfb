"""Rights: the roles allow every request that the code makes and no other; each that is missing is named."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from typing import Any

import pytest
from tests.support import golden as files
from tests.support.chart import CHART, EXAMPLE_VALUES, PLAIN, of_kind, render
from tests.support.guardedapi import Grant, GuardedApi, Request, allows, grants
from tests.support.paths import ROOT

from specdec.controller import access, keys, kinds, lease
from specdec.controller.kinds import CHILDREN, CLAIM, EVENT, KINDS, LEASE, SECRET, SPEC_DECODE_SERVER, Kind
from specdec.controller.kube import ForbiddenError, Kube

HOME = "specdec-system"
SERVED = "team-a"
INSTALLS: dict[str, tuple[dict[str, Any], str]] = {
    "cluster-wide": ({}, ""),
    "namespaced": ({"namespaces": [SERVED, "team-b"]}, SERVED),
}
"""Values on top of the example's, and the namespace that lists and watches are for."""
OWN = {LEASE: lease.NAME, SECRET: keys.NAME}
"""Objects in the operator's own namespace."""
STATUS = "status"
NEEDS = [
    (kind, verb)
    for kind in (SPEC_DECODE_SERVER, *CHILDREN, CLAIM, EVENT, LEASE, SECRET)
    for verb in kind.verbs
]
METHODS = {"create": "create", "replace": "update", "delete": "delete", "get": "get", "list": "list"}


@functools.cache
def rendered(install: str) -> list[dict[str, Any]]:
    return render(EXAMPLE_VALUES, INSTALLS[install][0])


def given(install: str) -> list[Grant]:
    return grants(rendered(install), "specdec-operator")


async def ask(kube: Kube, kind: Kind, verb: str, where: str) -> None:
    """Make one request by the method that the controller makes it by."""
    namespace, name = (HOME, OWN[kind]) if kind in OWN else (SERVED, "demo")
    manifest = {"kind": kind.kind, "metadata": {"namespace": namespace, "name": name}}
    match verb:
        case "get":
            await kube.get(kind, namespace, name)
        case "list":
            await kube.list(kind, where, kind.label)
        case "watch":
            await kube.try_watch(kind, where, kind.label)
        case "create":
            await kube.create(kind, namespace, manifest)
        case "update":
            await kube.replace(kind, namespace, manifest)
        case "patch":
            await kube.apply(manifest)
        case "delete":
            await kube.delete(kind, namespace, name, "uid")
        case _:
            raise AssertionError(verb)


def kube_of(install: str) -> tuple[Kube, GuardedApi]:
    api = GuardedApi(given(install))
    return Kube(api), api  # type: ignore[arg-type]


@pytest.mark.parametrize("install", INSTALLS)
@pytest.mark.parametrize(("kind", "verb"), NEEDS, ids=lambda part: getattr(part, "kind", part))
async def test_every_request_is_allowed(install: str, kind: Kind, verb: str):
    kube, api = kube_of(install)
    await ask(kube, kind, verb, INSTALLS[install][1])
    assert [(asked.verb, asked.resource) for asked in api.asked] == [(verb, kind.plural)]


@pytest.mark.parametrize("install", INSTALLS)
async def test_the_status_is_written_and_the_spec_never(install: str):
    kube, _ = kube_of(install)
    manifest = {"kind": SPEC_DECODE_SERVER.kind, "metadata": {"namespace": SERVED, "name": "demo"}}
    await kube.apply(manifest, STATUS)
    with pytest.raises(ForbiddenError, match=r"may not patch specdecodeservers\.specdec\.dev"):
        await kube.apply(manifest)


@pytest.mark.parametrize("install", INSTALLS)
def test_nothing_more_is_granted(install: str):
    wanted = {(kind.group, kind.plural, verb) for kind, verb in NEEDS}
    wanted.add((SPEC_DECODE_SERVER.group, f"{SPEC_DECODE_SERVER.plural}/{STATUS}", "patch"))
    assert {triple for grant in given(install) for rule in grant.rules for triple in triples(rule)} == wanted


def triples(rule: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    for group in rule["apiGroups"]:
        for resource in rule["resources"]:
            for verb in rule["verbs"]:
                yield group, resource, verb


def without(install: str, resource: str, verb: str) -> list[Grant]:
    """Take one verb on one resource away."""
    return [
        Grant(
            grant.namespace,
            tuple(
                {
                    **rule,
                    "resources": [name],
                    "verbs": [has for has in rule["verbs"] if (name, has) != (resource, verb)],
                }
                for rule in grant.rules
                for name in rule["resources"]
            ),
        )
        for grant in given(install)
    ]


@pytest.mark.parametrize("install", INSTALLS)
@pytest.mark.parametrize(("kind", "verb"), NEEDS, ids=lambda part: getattr(part, "kind", part))
async def test_each_missing_verb_is_named_with_its_resource(install: str, kind: Kind, verb: str):
    api = GuardedApi(without(install, kind.plural, verb))
    with pytest.raises(ForbiddenError) as complaint:
        await ask(Kube(api), kind, verb, INSTALLS[install][1])  # type: ignore[arg-type]
    resource = f"{kind.plural}.{kind.group}" if kind.group else kind.plural
    assert str(complaint.value).startswith(f"specdec-operator may not {verb} {resource} in ")
    assert str(complaint.value).endswith("grant it in the operator's role")


@pytest.mark.parametrize("verb", ["list", "watch"])
@pytest.mark.parametrize(
    "kind", [kind for kind in CHILDREN if kind.need is kinds.Need.USEFUL], ids=lambda k: k.kind
)
async def test_a_useful_kind_is_left_out_and_the_rest_goes_on(
    kind: Kind, verb: str, caplog: pytest.LogCaptureFixture
):
    kube = Kube(GuardedApi(without("cluster-wide", kind.plural, verb)))  # type: ignore[arg-type]
    assert await access.settle(kube, ()) == {kind}
    assert f"may not {verb} {kind.plural}" in caplog.text


@pytest.mark.parametrize("verb", ["list", "watch"])
@pytest.mark.parametrize(
    "kind", [kind for kind in KINDS.values() if kind.need is kinds.Need.ESSENTIAL], ids=lambda k: k.kind
)
async def test_the_operator_waits_for_an_essential_kind_and_says_which(
    kind: Kind, verb: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    api = GuardedApi(without("cluster-wide", kind.plural, verb))

    async def granted(_: float) -> None:
        api.given = given("cluster-wide")

    monkeypatch.setattr(access.asyncio, "sleep", granted)
    assert await access.settle(Kube(api), ()) == frozenset()  # type: ignore[arg-type]
    assert f"may not {verb} {kind.plural}" in caplog.text


def calls() -> Iterator[tuple[str, str, ast.expr]]:
    """Every request in the controller's code: file, method, and the kind as it is written."""
    # snapshot.py asks for people at a terminal, with their own rights.
    sources = set((ROOT / "operator/specdec/controller").glob("*.py")) - {
        ROOT / "operator/specdec/controller/snapshot.py"
    }
    for path in sorted(sources):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                owner = node.func.value
                name = owner.attr if isinstance(owner, ast.Attribute) else getattr(owner, "id", "")
                if name == "kube" and node.args:
                    yield path.name, node.func.attr, node.args[0]


def test_requests_of_a_named_kind_use_declared_verbs():
    named = [
        (method, getattr(kinds, kind.id)) for _, method, kind in calls()
        if isinstance(kind, ast.Name) and kind.id.isupper()
    ]  # fmt: skip
    assert len(named) >= 9
    assert [(method, kind.kind) for method, kind in named if METHODS[method] not in kind.verbs] == []


def test_requests_of_other_kinds_are_those_that_are_known():
    other = {
        (file, method)
        for file, method, kind in calls()
        if not (isinstance(kind, ast.Name) and kind.id.isupper())
    }
    # A new one: does its kind declare the verb in kinds.py, and the chart grant it?
    assert other == {
        ("access.py", "list"),
        ("access.py", "try_watch"),
        ("apply.py", "create"),
        ("apply.py", "get"),
        ("apply.py", "apply"),
        ("apply.py", "delete"),
        ("status.py", "apply"),
        ("watchdog.py", "pages"),
        ("watches.py", "pages"),
        ("watches.py", "watch"),
    }


def test_no_role_holds_a_wildcard_or_a_way_to_more_rights():
    everything = render(files.DATA / "chart" / "everything.input.yaml")
    roles = [
        *of_kind(rendered("cluster-wide"), "ClusterRole"),
        *of_kind(rendered("cluster-wide"), "Role"),
        *of_kind(rendered("namespaced"), "Role"),
        *of_kind(everything, "ClusterRole"),
    ]
    every = {triple for role in roles for rule in role["rules"] for triple in triples(rule)}
    assert not [triple for triple in every if "*" in triple]
    assert not {verb for _, _, verb in every} & {"bind", "escalate", "impersonate"}
    assert not [
        resource
        for _, resource, _ in every
        if resource in ("pods/exec", "pods/attach", "serviceaccounts/token")
    ]


def test_secrets_are_one_secret_in_the_operators_own_namespace():
    for install in INSTALLS:
        for role in [item for item in rendered(install) if item["kind"] in ("ClusterRole", "Role")]:
            for rule in [rule for rule in role["rules"] if "secrets" in rule["resources"]]:
                assert role["metadata"]["namespace"] == HOME
                assert rule["verbs"] == ["create"] or rule["resourceNames"] == [keys.NAME]
        of_another = Request("get", "", "secrets", HOME, "another")
        assert not allows(given(install), of_another)


def test_a_namespaced_install_has_no_right_elsewhere():
    for kind, verb in NEEDS:
        outside = Request(verb, kind.group, kind.plural, "team-c", "demo")
        assert not allows(given("namespaced"), outside)
    manifests = render(CHART / "values.yaml", EXAMPLE_VALUES, PLAIN, {"namespaces": [SERVED]})
    assert not of_kind(manifests, "ClusterRole")
    assert not of_kind(manifests, "ClusterRoleBinding")


def user_role(ending: str) -> dict[str, Any]:
    roles = of_kind(render(files.DATA / "chart" / "everything.input.yaml"), "ClusterRole")
    (role,) = [role for role in roles if role["metadata"]["name"].endswith(ending)]
    return role


def test_viewers_read_and_editors_write_all_but_the_status():
    viewer, editor = user_role("-viewer"), user_role("-editor")
    reads = {triple[2] for rule in viewer["rules"] for triple in triples(rule)}
    writes = {triple[1] for rule in editor["rules"] for triple in triples(rule)}
    assert reads == {"get", "list", "watch"}
    assert writes == {"specdecodeservers", "specdecodeservers/scale"}


def test_user_roles_are_part_of_the_roles_that_every_cluster_has():
    into = "rbac.authorization.k8s.io/aggregate-to-"
    reach = {
        ending: {
            name.removeprefix(into)
            for name in user_role(ending)["metadata"]["labels"]
            if name.startswith(into)
        }
        for ending in ("-viewer", "-editor")
    }
    assert reach == {"-viewer": {"view", "edit", "admin"}, "-editor": {"edit", "admin"}}
