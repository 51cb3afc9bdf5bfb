"""What all API models share: camelCase names, docstrings as descriptions, strict input."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

GROUP = "specdec.dev"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
KIND = "SpecDecodeServer"
PLURAL = "specdecodeservers"


class ApiModel(BaseModel):
    """Base of the API's models; an attribute's docstring is its description in the CRD."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        extra="ignore",
        frozen=True,
        use_attribute_docstrings=True,
    )


def rule(expression: str, message: str, **more: str) -> dict[str, str]:
    """One CEL rule (`x-kubernetes-validations`), evaluated by the API server at admission."""
    return {"rule": expression, "message": message, **more}


def rules(*items: dict[str, str], **more: Any) -> dict[str, Any]:
    """Schema extras of a field or a model that carries CEL rules."""
    return {"x-kubernetes-validations": list(items), **more}


DECIMAL = r"^(0|[1-9][0-9]{0,3})(\.[0-9]{1,4})?$"
"""A decimal string: the API has no floats."""

Decimal = Annotated[str, Field(pattern=DECIMAL, max_length=10)]

MODEL_URI = r"^pvc://[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?(/[A-Za-z0-9_][A-Za-z0-9._-]*){1,8}$"


MODEL_URI_LENGTH = 512


def checked_uri(uri: str) -> str:
    """Hold a URI to the CRD's rules once more: an object may have been stored before they were there."""
    if len(uri) > MODEL_URI_LENGTH or ".." in uri or "\n" in uri or not re.match(MODEL_URI, uri):
        raise ValueError(f"must be pvc://CLAIM/FOLDER of {MODEL_URI_LENGTH} characters at most, without '..'")
    return uri


ModelUri = Annotated[
    str,
    AfterValidator(checked_uri),
    Field(
        min_length=1,
        max_length=MODEL_URI_LENGTH,
        json_schema_extra=rules(
            rule(
                "self.startsWith('pvc://')",
                "must be pvc://CLAIM/FOLDER: a folder of a PersistentVolumeClaim in the same namespace",
            ),
            rule(
                "!self.contains('..')",
                "must not contain '..': give a folder inside the claim, such as pvc://models/drafters/v1",
            ),
            rule(
                f"self.matches('{MODEL_URI}')",
                "must be pvc://CLAIM/FOLDER with 1 to 8 path segments of letters, digits, '.', '_' and '-',"
                " each starting with a letter, a digit or '_' (no absolute path, no '//')",
            ),
        ),
    ),
]
"""Where a model lies: `pvc://CLAIM/FOLDER`."""

Name = Annotated[str, Field(min_length=1, max_length=63, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")]
"""A DNS label, as Kubernetes wants it for names of objects."""


def _not_of_the_system(name: str) -> str:
    """Hold a class to the CRD's rule once more: an object may have been stored before it was there."""
    if name.startswith("system-"):
        raise ValueError("must not begin with system-")
    return name


PriorityClass = Annotated[
    Name,
    AfterValidator(_not_of_the_system),
    Field(
        json_schema_extra=rules(
            rule(
                "!self.startsWith('system-')",
                "must not begin with 'system-': those classes are for the cluster's own pods, and would evict others",
            )
        )
    ),
]
"""A PriorityClass that users may give to their pods."""


class Condition(ApiModel):
    """A `metav1.Condition`."""

    type: Annotated[str, Field(max_length=64)]
    """CamelCase name of the condition."""
    status: Annotated[str, Field(pattern="^(True|False|Unknown)$")]
    """True, False or Unknown."""
    observed_generation: Annotated[int, Field(ge=0)] = 0
    """The generation of the object that this was computed for."""
    last_transition_time: Annotated[str, Field(json_schema_extra={"format": "date-time"})]
    """When the status last changed."""
    reason: Annotated[str, Field(max_length=128)]
    """CamelCase word for programs."""
    message: Annotated[str, Field(max_length=4096)] = ""
    """Sentence for people."""
