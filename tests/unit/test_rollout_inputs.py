"""Bad input that only the cluster shows: what is found, and that all of it is said at once."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.support.scenario_world import SETTINGS, planned, pod, record, server, world

from specdec.rollout.world import ClaimView, Settings

V1 = record("v1", 1, outcome="Promoted")
MODELS = ClaimView("models", exists=True, access_modes=("ReadOnlyMany",))


def stalled(spec, *claims, settings=SETTINGS):
    seen = replace(world(server("v1", **spec), V1, pod(V1), records=(V1,)), claims=claims, settings=settings)
    made = planned(seen)
    (condition,) = (item for item in made.status.conditions if item.type == "Stalled")
    return condition.reason if condition.status == "True" else "", condition.message


@pytest.mark.parametrize(
    ("replicas", "modes", "needed"),
    [
        (1, ("ReadWriteOnce",), ""),
        (1, ("ReadWriteMany",), ""),
        (1, ("ReadOnlyMany",), "engines write to it, so it needs ReadWriteOnce or ReadWriteMany"),
        (1, (), ""),
        (2, (), ""),
        (2, ("ReadWriteMany", "ReadOnlyMany"), ""),
        (2, ("ReadWriteOnce",), "more than one replica needs ReadWriteMany"),
        (2, ("ReadOnlyMany",), "more than one replica needs ReadWriteMany"),
    ],
)
def test_a_cache_must_be_writable_and_by_all_replicas(replicas, modes, needed):
    spec = {"replicas": replicas, "engine": {"cacheClaim": "cache"}}
    reason, message = stalled(spec, MODELS, ClaimView("cache", exists=True, access_modes=modes))
    assert (reason, needed in message) == ("ClaimAccessMode" if needed else "", True)


@pytest.mark.parametrize(
    ("image", "found"),
    [
        ("registry.example/specdec/engine:2", False),
        ("registry.example/engine:1", False),
        ("registry.example/other:1", True),
    ],
)
def test_the_default_image_is_allowed_and_images_by_their_prefix(image, found):
    settings = Settings("registry.example/engine:1", ("registry.example/specdec/",))
    reason, _ = stalled({"engine": {"image": image}}, MODELS, settings=settings)
    assert (reason == "ImageNotAllowed") is found


def test_all_that_is_wrong_is_said_at_once():
    spec = {"engine": {"image": "elsewhere.example/x:1"}, "acceptance": {"minAcceptLength": "9.9"}}
    reason, message = stalled(spec, ClaimView("models", exists=False))
    assert reason == "ImageNotAllowed"
    for word in ("elsewhere.example/x:1", "PersistentVolumeClaim models", "9.9"):
        assert word in message
