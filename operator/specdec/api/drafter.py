"""`spec.drafter`: the small model, and what its files don't say of it."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from specdec.api.base import ApiModel, ModelUri, rule, rules
from specdec.preflight.facts import Convention, Declared

LayerIds = Annotated[
    tuple[Annotated[int, Field(ge=-1, le=4096)], ...],
    Field(
        min_length=1,
        max_length=16,
        json_schema_extra=rules(
            rule(
                "self.isSorted()",
                "must rise: layers are captured in the target's order, and the drafter's fc was trained on that",
            ),
            **{"x-kubernetes-list-type": "set"},
        ),
    ),
]


class Layers(ApiModel):
    """Layers of the target that a drafter was trained on, where its config is silent, ambiguous or wrong."""

    ids: LayerIds | None = None
    """Their ids, rising; those in the drafter's config if left out."""
    convention: Convention
    """What the ids count, which no config says: Output means that n is the output of layer n and -1 the embedding's, Boundary that n is the input of layer n and 0 the embedding's output."""

    @property
    def declared(self) -> Declared:
        """The same as the preflight takes it."""
        return Declared(self.ids, self.convention)


Version = Annotated[str, Field(min_length=1, max_length=63, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]


class Drafter(ApiModel):
    """The small model that guesses tokens: the part that is rolled out, judged and rolled back."""

    model: ModelUri
    """Folder with the drafter's config.json and safetensors: pvc://CLAIM/FOLDER; one folder per version."""
    version: Version | None = None
    """Name of this version for people; the last segment of `model` by default."""
    layers: Layers | None = None
    """Layers of the target that it was trained on, where its config is silent, ambiguous or wrong; the ids are then written as this SGLang reads them, unless preflight.repair is Never."""
