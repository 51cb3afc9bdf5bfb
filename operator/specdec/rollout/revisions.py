"""What a revision is: image, restart inputs, target and drafter, named by their hash.

Two hashes decide how a change is rolled out. The name covers everything; the restart hash covers the
user's inputs without the drafter: equal restart hashes mean that the drafter can be swapped in place.
Neither looks at our own template builder, so a newer operator restarts nobody's engines.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from pydantic import TypeAdapter

from specdec.api.base import checked_uri
from specdec.api.drafter import Drafter, Layers, Version
from specdec.api.v1alpha1 import ServedName, SpecDecodeServer
from specdec.engine.protocol import DrafterRef
from specdec.rollout.world import RevisionRecord, Settings

MODELS = "/models"
"""Claims are mounted here, each below its own name."""

_WITHOUT_RESTART = {"image", "stall_seconds", "warmup_seconds", "volumes"}
"""Engine fields that live in the launch plan, or stand in the content under another name."""

# Admission has checked the user's words; what is built from them must not depend on that alone.
_SERVED_NAME: TypeAdapter[str | None] = TypeAdapter(ServedName | None)
_VERSION: TypeAdapter[str | None] = TypeAdapter(Version | None)


def content(server: SpecDecodeServer, settings: Settings) -> dict[str, Any]:
    """Collect everything that makes this server's wish one revision.

    Raises
    ------
    ValueError
        A name in it is none that the CRD allows.
    """
    spec = server.spec
    engine = spec.engine.model_dump(
        mode="json", by_alias=True, exclude=_WITHOUT_RESTART, exclude_defaults=True
    )
    served_name = _SERVED_NAME.validate_python(spec.target.served_name)
    return {
        "image": spec.engine.image or settings.default_image,
        "engine": engine,
        "claims": claims(server),
        "target": {"model": spec.target.model, "servedName": served_name or server.name},
        "drafter": _drafter(spec.drafter),
        "numSteps": spec.num_steps,
    }


def name(server: SpecDecodeServer, content: dict[str, Any]) -> str:
    """Name a revision: the server's name and ten hex digits of what it is."""
    return f"{server.name}-{_hash(content)}"


def restart_hash(content: dict[str, Any]) -> str:
    """Hash what needs a restart when it changes: everything but which drafter it is."""
    without_drafter = {key: value for key, value in content.items() if key != "drafter"}
    return _hash(without_drafter | {"drafts": content.get("drafter") is not None})


def drafter_ref(record: RevisionRecord) -> DrafterRef | None:
    """Where the pod finds the drafter of a revision; None if it has none."""
    drafter = record.data.get("drafter")
    if drafter is None:
        return None
    return DrafterRef(
        revision=record.name,
        version=drafter["version"],
        path=model_path(drafter["model"]),
        layers=declared_layers(record),
    )


def declared_layers(record: RevisionRecord) -> Layers | None:
    """What the user said of the layers that a revision's drafter was trained on."""
    said = (record.data.get("drafter") or {}).get("layers")
    return Layers.model_validate(said) if said else None


def version(record: RevisionRecord) -> str:
    """Name of a revision's drafter for people ("" without one)."""
    drafter = record.data.get("drafter")
    return str(drafter["version"]) if drafter else ""


def model_path(uri: str) -> str:
    """Map pvc://CLAIM/PATH to the folder inside the pod."""
    # Admission has checked it; a path that leads elsewhere must not depend on that alone.
    return f"{MODELS}/{checked_uri(uri).removeprefix('pvc://')}"


def claim(uri: str) -> str:
    """Name the claim of pvc://CLAIM/PATH."""
    return uri.removeprefix("pvc://").partition("/")[0]


def claims(server: SpecDecodeServer) -> list[str]:
    """Claims that a pod must mount; a drafter from any other claim needs a restart."""
    spec = server.spec
    named = {claim(spec.target.model), *spec.engine.volumes}
    return sorted(named | ({claim(spec.drafter.model)} if spec.drafter else set()))


def _drafter(drafter: Drafter | None) -> dict[str, Any] | None:
    if drafter is None:
        return None
    said = (
        drafter.layers.model_dump(mode="json", by_alias=True, exclude_none=True) if drafter.layers else None
    )
    return {
        "model": drafter.model,
        "version": _VERSION.validate_python(drafter.version) or drafter.model.rpartition("/")[2],
        # Left out if nothing is said: a revision's name is the hash of this.
        **({"layers": said} if said else {}),
    }


def _hash(value: dict[str, Any]) -> str:
    canonical = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()[:10]
