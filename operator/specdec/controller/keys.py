"""The signing key of commands: one Secret in the operator's own namespace, made once.

A key is exchanged without a moment in which agents know none: the next one stands beside it first, is told to the
agents in their launch plans, and signs once it has taken the first one's place.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from specdec.controller.kinds import SECRET
from specdec.controller.kube import ConflictError, Kube
from specdec.engine.signing import public_key
from specdec.resources.labels import OPERATOR

NAME = "specdec-signing-key"
FIELD = "ed25519"
"""Field of the Secret: the raw 32 bytes of the key that signs."""
NEXT = "ed25519-next"
"""Field of the key that will sign later: agents learn its public half already."""


@dataclass(frozen=True)
class Keys:
    """What signs, and what agents are told to accept."""

    signing: Ed25519PrivateKey
    upcoming: Ed25519PrivateKey | None = None

    @property
    def public(self) -> tuple[str, ...]:
        """Public halves for the launch plans: of the key that signs, then of the next one."""
        return tuple(public_key(key) for key in (self.signing, self.upcoming) if key is not None)


async def load(kube: Kube, namespace: str) -> Keys:
    """Read the keys, making the first one where there is none.

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
    fields = (secret or {}).get("data", {})
    if FIELD not in fields:
        raise ValueError(
            f"Secret {namespace}/{NAME} has no field {FIELD}: delete it, the operator makes a new one"
        )
    upcoming = _key(fields, NEXT, namespace) if NEXT in fields else None
    return Keys(_key(fields, FIELD, namespace), upcoming)


def _key(fields: dict[str, str], name: str, namespace: str) -> Ed25519PrivateKey:
    try:
        return Ed25519PrivateKey.from_private_bytes(base64.b64decode(fields[name], validate=True))
    except ValueError:
        raise ValueError(
            f"field {name} of Secret {namespace}/{NAME} is no Ed25519 key: expected 32 random bytes in base64"
        ) from None


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
