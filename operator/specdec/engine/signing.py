"""Commands are signed: an EdDSA JWT that names one pod, one body and one assignment.

The operator holds the private key in its own namespace; the launch plan carries the public keys, so no
Secret of ours lies in a user's namespace.
"""

from __future__ import annotations

import base64
import hashlib
import time

import jwt
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

LIFETIME_SECONDS = 30
"""How long a signature is good for; clocks may differ by as much again."""


class SignatureRefusedError(Exception):
    """The command's signature does not hold; the sentence says why."""


def body_hash(body: bytes) -> str:
    """Hash that a signature carries of the body."""
    return hashlib.sha256(body).hexdigest()


def public_key(private: Ed25519PrivateKey) -> str:
    """Public half as it stands in a launch plan: base64 of the raw 32 bytes."""
    return base64.b64encode(private.public_key().public_bytes_raw()).decode()


def sign(private: Ed25519PrivateKey, *, pod_uid: str, body: bytes, now: float | None = None) -> str:
    """Sign a command's body for one pod."""
    issued = time.time() if now is None else now
    claims = {"aud": pod_uid, "iat": issued, "exp": issued + LIFETIME_SECONDS, "bh": body_hash(body)}
    return jwt.encode(claims, private, algorithm="EdDSA")


def verify(token: str, public_keys: tuple[str, ...], *, pod_uid: str, body: bytes) -> None:
    """Check a signature against the keys of the plan.

    Raises
    ------
    SignatureRefusedError
        No key fits, the audience is another pod, the body differs, or it is too old.
    """
    if not public_keys:
        raise SignatureRefusedError("the launch plan carries no public key")
    refusals = []
    for encoded in public_keys:
        try:
            key = Ed25519PublicKey.from_public_bytes(base64.b64decode(encoded))
            claims = jwt.decode(
                token,
                key,
                algorithms=["EdDSA"],
                audience=pod_uid,
                leeway=LIFETIME_SECONDS,
                options={"require": ["exp", "aud", "bh"]},
            )
        except (jwt.InvalidTokenError, ValueError) as error:
            refusals.append(str(error))
            continue
        if claims["bh"] != body_hash(body):
            raise SignatureRefusedError("the signature belongs to another body")
        return
    raise SignatureRefusedError(f"no key of the launch plan fits: {'; '.join(refusals)}")
