"""The signing key of commands: one Secret in the operator's own namespace, made once."""

from __future__ import annotations

import base64

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from specdec.controller.kinds import SECRET
from specdec.controller.kube import ConflictError, Kube
from specdec.resources.labels import OPERATOR

NAME = "specdec-signing-key"
FIELD = "ed25519"
"""Field of the Secret: the raw 32 bytes."""


async def load(kube: Kube, namespace: str) -> Ed25519PrivateKey:
    """Read the key, making it first where there is none.

    Raises
    ------
    KubeError
        It can neither be read nor made.
    """
    secret = await kube.get(SECRET, namespace, NAME)
    if secret is None:
        try:
            secret = await kube.create(SECRET, namespace, _manifest(namespace))
        except ConflictError:  # made by another process since
            secret = await kube.get(SECRET, namespace, NAME)
    if secret is None or FIELD not in secret.get("data", {}):
        raise ValueError(
            f"Secret {namespace}/{NAME} has no field {FIELD}: delete it, the operator makes a new one"
        )
    return Ed25519PrivateKey.from_private_bytes(base64.b64decode(secret["data"][FIELD]))


def _manifest(namespace: str) -> dict[str, object]:
    raw = Ed25519PrivateKey.generate().private_bytes_raw()
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "Opaque",
        "metadata": {
            "name": NAME,
            "namespace": namespace,
            "labels": {"app.kubernetes.io/managed-by": OPERATOR},
        },
        "data": {FIELD: base64.b64encode(raw).decode()},
    }
