"""Who can reach a pod's ports can read a status and nothing else: every command of the agent wants a signature."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, get_args

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from specdec.engine.agent.server import BODY_BYTES, build_app
from specdec.engine.plugin.routes import is_open
from specdec.engine.protocol import Answer, Command, Envelope
from specdec.engine.signing import body_hash, public_key, sign

OPERATOR, TENANT = Ed25519PrivateKey.generate(), Ed25519PrivateKey.generate()
POD = "pod-uid"
DRAFTER = {"revision": "r2", "version": "v2", "path": "/models/models/v2"}
FIELDS: dict[str, Any] = {
    "drafter": DRAFTER, "confirmWithinSeconds": 60, "withinSeconds": 60, "revision": "r1", "reason": "x",
    "message": "x", "id": "p1", "drafting": "Off",
}  # fmt: skip
VERBS = [
    verb
    for model in get_args(get_args(Command)[0])
    for verb in get_args(model.model_fields["verb"].annotation)
]
ADMIN = (
    "flush_cache", "update_weights_from_disk", "update_weights_from_tensor", "update_weights_from_distributed",
    "init_weights_update_group", "release_memory_occupation", "resume_memory_occupation", "load_lora_adapter",
    "unload_lora_adapter", "load_lora_adapter_from_tensors", "start_profile", "stop_profile", "server_info",
    "get_server_info", "set_internal_state", "get_internal_state", "abort_request", "pause_generation",
    "continue_generation", "configure_logging", "dump_tracker", "open_session", "close_session", "slow_down",
    "start_expert_distribution_record", "generate", "encode", "classify", "freeze_gc", "hicache", "clear_hicache_storage_backend",
    "specdec/swap", "specdec/drafting", "specdec/report", "docs", "redoc", "openapi.json", "",
)  # fmt: skip


@dataclass
class Supervisor:
    """Remembers what it was told."""

    public_keys: tuple[str, ...] = (public_key(OPERATOR),)
    settings: Any = field(default_factory=lambda: SimpleNamespace(pod_uid=POD, run_dir=None))
    taken: list[Envelope] = field(default_factory=list)

    async def take(self, envelope: Envelope, _: str) -> Answer:
        self.taken.append(envelope)
        return Answer(accepted=True)


async def ask(
    supervisor: Supervisor, method: str, path: str, body: bytes = b"", token: str = ""
) -> tuple[int, Any]:
    app = build_app(supervisor, asyncio.get_running_loop())  # type: ignore[arg-type]
    headers = [(b"authorization", f"Bearer {token}".encode())] if token else []
    scope = {
        "type": "http", "method": method, "path": path, "raw_path": path.encode(), "query_string": b"",
        "headers": headers, "http_version": "1.1", "scheme": "http", "client": ("10.0.0.9", 1), "server": ("agent", 8701),
    }  # fmt: skip
    sent: list[dict[str, Any]] = []
    parts = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> dict[str, Any]:
        return parts.pop() if parts else {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    await app(scope, receive, send)
    text = b"".join(message.get("body", b"") for message in sent[1:])
    return sent[0]["status"], text.decode()


def body(verb: str) -> bytes:
    command = {"verb": verb, **FIELDS}
    return json.dumps({"assignment": 9, "epoch": 9, "command": command}).encode()


def forged(verb: str) -> dict[str, str]:
    """Tokens that a tenant can make, by what is wrong with them."""
    of = body(verb)
    claims = {"aud": POD, "exp": 4_000_000_000, "bh": body_hash(of)}
    return {
        "none": "",
        "nonsense": "a.b.c",
        "another key": sign(TENANT, pod_uid=POD, body=of),
        "another pod": sign(OPERATOR, pod_uid="other", body=of),
        "another body": sign(OPERATOR, pod_uid=POD, body=of + b" "),
        "an old one": sign(OPERATOR, pod_uid=POD, body=of, now=1_000_000_000),
        "no algorithm": jwt.encode(claims, None, algorithm="none"),
        "the public key as a secret": jwt.encode(
            claims, public_key(OPERATOR).ljust(64, "="), algorithm="HS256"
        ),
        "no end": jwt.encode({"aud": POD, "bh": body_hash(of)}, OPERATOR, algorithm="EdDSA"),
        "no body": jwt.encode({"aud": POD, "exp": 4_000_000_000}, OPERATOR, algorithm="EdDSA"),
    }


def test_every_verb_is_known_here():
    assert len(VERBS) >= 6
    assert {"Swap", "Confirm", "Promote", "Rollback", "SetDrafting"} <= set(VERBS)


@pytest.mark.parametrize("flaw", forged("Rollback"))
@pytest.mark.parametrize("verb", VERBS)
async def test_no_command_is_taken_without_the_operators_signature(verb: str, flaw: str):
    supervisor = Supervisor()
    status, said = await ask(supervisor, "POST", "/commands", body(verb), forged(verb)[flaw])
    assert (status, supervisor.taken) == (401, [])
    assert json.loads(said)["reason"] == "SignatureRefused"


@pytest.mark.parametrize("verb", VERBS)
async def test_a_signed_command_is_taken(verb: str):
    supervisor = Supervisor()
    status, said = await ask(
        supervisor, "POST", "/commands", body(verb), sign(OPERATOR, pod_uid=POD, body=body(verb))
    )
    assert (status, len(supervisor.taken)) == (200, 1), said


async def test_both_keys_hold_while_the_key_is_rotated_and_the_old_one_not_after():
    old, new = OPERATOR, TENANT
    of = body("Confirm")
    for keys, signer, expected in (
        ((public_key(old), public_key(new)), old, 200),
        ((public_key(old), public_key(new)), new, 200),
        ((public_key(new),), old, 401),
        ((), old, 401),
    ):
        supervisor = Supervisor(public_keys=keys)
        status, _ = await ask(supervisor, "POST", "/commands", of, sign(signer, pod_uid=POD, body=of))
        assert status == expected


async def test_a_body_without_end_is_cut_off():
    status, _ = await ask(Supervisor(), "POST", "/commands", b" " * (BODY_BYTES + 1))
    assert status == 413


@pytest.mark.parametrize("path", ADMIN)
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_the_agent_has_no_other_route(method: str, path: str):
    status, _ = await ask(Supervisor(), method, f"/{path}")
    assert status == 404


@pytest.mark.parametrize("path", ["/live", "/ready", "/status", "/preflight"])
@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
async def test_what_can_be_read_can_not_be_written(method: str, path: str):
    assert (await ask(Supervisor(), method, path))[0] == 405


@pytest.mark.parametrize("path", ADMIN)
@pytest.mark.parametrize(
    "form", ["/{}", "//{}", "/V1/{}", "/v1{}", "/./{}", "/health/{}", "/metricsx/{}", "/{}/v1/"]
)
def test_the_engine_opens_no_admin_route_to_users(form: str, path: str):
    assert not is_open(form.format(path)) or form.format(path) == "/v1/"
