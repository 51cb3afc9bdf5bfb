"""What kopf is told: nothing that leaves a finalizer or an annotation on a user's object."""

from itertools import islice
from typing import Any

import kopf
import pytest
import yaml
from tests.support.paths import ROOT

from specdec.controller import handlers
from specdec.controller.kinds import CHILDREN, CLAIM, EVENT, SPEC_DECODE_SERVER
from specdec.controller.store import Key, Store
from specdec.controller.watches import DEAF_SECONDS, WATCH_SECONDS


def made() -> tuple[kopf.OperatorRegistry, Store, list[Key]]:
    store, woken = Store(), list[Key]()
    return handlers.registry(store, woken.append), store, woken


def test_no_handler_makes_kopf_write_to_an_object():
    registry, _, _ = made()
    # Daemons and timers spawn; create, update, delete and resume handlers change: both bring finalizers or annotations.
    assert list(registry._spawning.get_all_handlers()) == []
    assert list(registry._changing.get_all_handlers()) == []
    assert list(registry._webhooks.get_all_handlers()) == []
    assert list(registry._indexing.get_all_handlers()) == []


def test_kopf_watches_the_servers_alone():
    registry, _, _ = made()
    watched = {handler.selector.any_name for handler in registry._watching.get_all_handlers()}
    assert watched == {SPEC_DECODE_SERVER.plural}


def test_kopf_posts_nothing_scans_nothing_and_never_gives_an_api_server_up_nor_waits_for_a_silent_one():
    chosen = handlers.settings()
    assert not chosen.posting.enabled
    assert chosen.scanning.disabled
    assert len(list(islice(chosen.networking.error_backoffs, 1000))) == 1000
    waits = (
        chosen.networking.connect_timeout,
        chosen.networking.request_timeout,
        chosen.watching.client_timeout,
    )
    assert waits == (handlers.CONNECT_SECONDS, handlers.LIST_SECONDS, WATCH_SECONDS + DEAF_SECONDS)
    assert max(waits) <= 75.0


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
