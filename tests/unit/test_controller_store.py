"""The store: what is put in comes out, whatever came first, and takes little room."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tests.support.controllerparts import KEY, UID, server

from specdec.controller.kinds import CONFIG_MAP, SPEC_DECODE_SERVER
from specdec.controller.store import Store
from specdec.controller.watches import take
from specdec.resources.labels import SERVER

TEXTS = st.text(max_size=40)


def config_map(number: int, data: dict[str, str]) -> dict[str, Any]:
    metadata = {
        "namespace": "serving",
        "name": f"demo-{number}",
        "uid": f"uid-{number}",
        "resourceVersion": str(number + 1),
        "labels": {SERVER: "demo"},
    }
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


@given(st.lists(st.dictionaries(TEXTS, TEXTS, max_size=4), min_size=1, max_size=5))
def test_every_object_comes_out_as_it_went_in_whatever_the_first_of_its_kind_was(contents):
    store = Store()
    put = [config_map(number, data) for number, data in enumerate(contents)]
    for manifest in put:
        store.put(manifest)
    assert store.children(CONFIG_MAP, KEY) == put


def test_an_object_like_the_first_of_its_kind_takes_little_room():
    store = Store()
    alike = {f"argument-{number}": f"value-{number * number}" for number in range(100)}
    store.put(config_map(1, alike))
    store.put(config_map(2, {**alike, "argument-7": "another"}))
    first, second = (store.known(CONFIG_MAP)["serving", f"demo-{number}"] for number in (1, 2))
    assert len(second.content) * 4 < len(str(second.manifest()))
    assert second.like is first.like


def test_a_server_that_is_there_is_wanted_until_it_is_on_its_way_out():
    store = Store()
    assert store.wanted(KEY) is None
    made = {**server(), "metadata": {**server()["metadata"], "resourceVersion": "1"}}
    store.put(made)
    assert store.wanted(KEY) == UID
    leaving = {"resourceVersion": "2", "deletionTimestamp": "2026-11-29T10:00:00Z"}
    store.put({**made, "metadata": {**made["metadata"], **leaving}})
    assert store.wanted(KEY) is None
    assert store.get(SPEC_DECODE_SERVER, *KEY) is not None


def relabelled(label: str) -> dict[str, Any]:
    made = config_map(1, {})
    return {**made, "metadata": {**made["metadata"], "resourceVersion": "9", "labels": {SERVER: label}}}


def test_an_object_that_someone_relabels_goes_to_the_other_server_and_both_hear_of_it():
    store, woken = Store(), list[Any]()
    store.put(config_map(1, {}))
    take(CONFIG_MAP, "MODIFIED", relabelled("other"), store, woken.append)
    assert sorted(woken) == [KEY, ("serving", "other")]
    assert store.children(CONFIG_MAP, KEY) == []
    assert store.children(CONFIG_MAP, ("serving", "other")) == [relabelled("other")]


def test_nothing_is_left_of_an_object_that_was_relabelled_and_deleted():
    store, woken = Store(), list[Any]()
    store.put(config_map(1, {}))
    store.put(relabelled("other"))
    take(CONFIG_MAP, "DELETED", relabelled("other"), store, woken.append)
    assert woken == [("serving", "other")]
    assert [store.children(CONFIG_MAP, key) for key in (KEY, ("serving", "other"))] == [[], []]
