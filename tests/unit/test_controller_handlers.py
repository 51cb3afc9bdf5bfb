"""What kopf is told: nothing that leaves a finalizer or an annotation on a user's object."""

from typing import Any

import kopf
import pytest
import yaml
from tests.support.paths import ROOT

from specdec.controller import handlers
from specdec.controller.kinds import CHILDREN, CLAIM, EVENT, SERVICE, SPEC_DECODE_SERVER
from specdec.controller.store import Key, Store


def made(unwatchable: frozenset[Any] = frozenset()) -> tuple[kopf.OperatorRegistry, Store, list[Key]]:
    store, woken = Store(), []
    return handlers.registry(store, woken.append, unwatchable), store, woken


def watched(registry: kopf.OperatorRegistry) -> set[str]:
    return {handler.selector.any_name for handler in registry._watching.get_all_handlers()}


def test_no_handler_makes_kopf_write_to_an_object():
    registry, _, _ = made()
    # Daemons and timers spawn; create, update, delete and resume handlers change: both bring finalizers or annotations.
    assert list(registry._spawning.get_all_handlers()) == []
    assert list(registry._changing.get_all_handlers()) == []
    assert list(registry._webhooks.get_all_handlers()) == []


def test_every_kind_that_decisions_need_is_watched():
    registry, _, _ = made()
    assert watched(registry) == {kind.plural for kind in (SPEC_DECODE_SERVER, *CHILDREN)}


def test_loops_start_after_all_children_are_known():
    registry, _, _ = made()
    indexed = {handler.selector.any_name for handler in registry._indexing.get_all_handlers()}
    assert indexed == {kind.plural for kind in CHILDREN}


def test_a_kind_that_may_not_be_listed_is_left_out():
    registry, _, _ = made(frozenset({SERVICE}))
    assert "services" not in watched(registry)


def test_watches_on_children_are_filtered_by_the_server():
    selectors = handlers.settings().watching.label_selectors
    assert {kind.label for kind in CHILDREN} == set(selectors.values())
    assert len(selectors) == len(CHILDREN)


def test_kopf_posts_nothing_and_scans_nothing():
    chosen = handlers.settings()
    assert not chosen.posting.enabled
    assert chosen.scanning.disabled


def pod(version: str = "1", label: str = "demo") -> dict[str, Any]:
    metadata = {
        "name": "demo-0",
        "namespace": "serving",
        "uid": "u",
        "resourceVersion": version,
        "labels": {"specdec.dev/server": label},
    }
    return {"metadata": metadata}


async def test_a_child_wakes_its_server_when_it_changes_and_when_it_goes():
    registry, store, woken = made()
    (index,) = [h for h in registry._indexing.get_all_handlers() if h.selector.any_name == "pods"]
    (event,) = [h for h in registry._watching.get_all_handlers() if h.selector.any_name == "pods"]
    await index.fn(body=kopf.Body(pod()))
    await index.fn(body=kopf.Body(pod()))
    assert woken == [("serving", "demo")]
    await event.fn(event={"type": "MODIFIED", "object": pod()})
    assert len(woken) == 1
    await event.fn(event={"type": "DELETED", "object": pod("2")})
    assert len(woken) == 2
    assert store.children(CHILDREN[0], ("serving", "demo")) == []


async def test_our_own_status_write_wakes_nobody():
    registry, store, woken = made()
    (event,) = [
        h for h in registry._watching.get_all_handlers() if h.selector.any_name == SPEC_DECODE_SERVER.plural
    ]
    server = {
        "apiVersion": SPEC_DECODE_SERVER.api_version,
        "kind": SPEC_DECODE_SERVER.kind,
        "metadata": {"name": "demo", "namespace": "serving", "uid": "u", "resourceVersion": "7"},
    }
    store.put(server)
    await event.fn(event={"type": "MODIFIED", "object": server})
    assert woken == []


def granted() -> dict[tuple[str, str], set[str]]:
    documents = yaml.safe_load_all((ROOT / "examples/operator.yaml").read_text())
    (role,) = [item for item in documents if item["kind"] == "ClusterRole"]
    return {
        (group, resource): set(rule["verbs"])
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }


@pytest.mark.parametrize("kind", [SPEC_DECODE_SERVER, *CHILDREN, CLAIM, EVENT], ids=lambda kind: kind.kind)
def test_the_role_grants_what_the_operator_does_and_no_more(kind: Any):
    assert granted()[kind.group, kind.plural] == set(kind.verbs)


def test_the_role_has_no_wildcards_and_no_secrets():
    flat = {part for key, verbs in granted().items() for part in (*key, *verbs)}
    assert not {"*", "secrets", "pods/exec"} & flat
    assert granted()["specdec.dev", "specdecodeservers/status"] == {"patch"}
    assert len(granted()) == len((SPEC_DECODE_SERVER, *CHILDREN, CLAIM, EVENT)) + 1
