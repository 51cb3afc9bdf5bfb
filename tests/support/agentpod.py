"""An engine pod without Kubernetes: the agent's real process, its mounted plan, and the operator's key."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from specdec.engine.agent.vitals import runs
from specdec.engine.protocol import (
    PLAN_KEY,
    Answer,
    Command,
    DrafterRef,
    Envelope,
    LaunchPlan,
    Phase,
    Status,
)
from specdec.engine.signing import public_key, sign

POD_UID = "7a6f1a52-0000-4000-8000-000000000001"


@dataclass
class AgentPod:
    """One pod: folders that outlive the container, and the container's process, which ends with the block at the latest."""

    folder: Path
    models: Path
    python: Path
    profile: Path
    agent_port: int
    engine_port: int
    arguments: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)
    key: Ed25519PrivateKey = field(default_factory=Ed25519PrivateKey.generate)
    assignment: int = 1
    epoch: int = 1
    process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        """Nothing runs yet."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave nothing running, also where the start failed."""
        self.kill_container()

    def drafter(self, name: str) -> DrafterRef:
        """Name a tiny model as the drafter of the revision r-NAME."""
        return DrafterRef(revision=f"r-{name}", version=name, path=str(self.models / name))

    def write_plan(self, drafter: str | DrafterRef | None, **fields: Any) -> LaunchPlan:
        """Mount a launch plan, as the kubelet does when the ConfigMap changes."""
        named = self.drafter(drafter) if isinstance(drafter, str) else drafter
        plan = LaunchPlan(
            **{
                "assignment": self.assignment,
                "server": "tests/pod",
                "revision": named.revision if named else "r-None",
                "target_path": str(self.models / "kimi"),
                "served_name": "kimi",
                "drafter": named,
                "arguments": self.arguments,
                "public_keys": (public_key(self.key),),
                "drain_seconds": 5,
                **fields,
            }
        )
        mount = self.folder / "plan"
        mount.mkdir(parents=True, exist_ok=True)
        draft = mount / ".plan.new"
        draft.write_text(plan.model_dump_json(by_alias=True))
        draft.replace(mount / PLAN_KEY)
        return plan

    def start(self) -> None:
        """Start the agent."""
        own = {
            "POD_UID": POD_UID,
            "PLAN_DIR": str(self.folder / "plan"),
            "STATE_DIR": str(self.folder / "state"),
            "RUN_DIR": str(self.folder / "run"),
            "MODELS_DIR": str(self.models),
            "SPECDEC_PROFILE": str(self.profile),
            "TERMINATION_LOG": str(self.folder / "termination-log"),
            "AGENT_HOST": "127.0.0.1",
            "AGENT_PORT": str(self.agent_port),
            "ENGINE_HOST": "127.0.0.1",
            "ENGINE_PORT": str(self.engine_port),
        }
        # The kubelet makes it anew for every container.
        (self.folder / "termination-log").write_bytes(b"")
        command = [str(self.python), "-m", "specdec.engine.agent.main"]
        with (self.folder / "agent.log").open("ab") as log:
            self.process = subprocess.Popen(
                command,
                env={**os.environ, **self.environment, **own},
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    @property
    def log(self) -> str:
        """Everything that the container wrote."""
        return (self.folder / "agent.log").read_text(errors="replace")

    @property
    def termination_message(self) -> str:
        """What the kubelet would show of a container that ends now."""
        return (self.folder / "termination-log").read_text()

    def get(self, path: str, *, seconds: float = 35) -> tuple[int, bytes]:
        """Ask the agent's API."""
        return _send(urllib.request.Request(f"http://127.0.0.1:{self.agent_port}{path}"), seconds)

    def status(self, query: str = "") -> Status:
        """Read the status."""
        code, body = self.get(f"/status{query}")
        assert code == 200, body
        return Status.model_validate_json(body)

    def command(self, command: Command, **changes: Any) -> tuple[int, Answer]:
        """Send a signed command with the next assignment, unless `changes` says otherwise."""
        self.assignment = changes.get("assignment", self.assignment + 1)
        envelope = Envelope(
            assignment=self.assignment, epoch=changes.get("epoch", self.epoch), command=command
        )
        body = envelope.model_dump_json(by_alias=True).encode()
        token = changes.get("token") or sign(
            changes.get("key", self.key), pod_uid=changes.get("pod_uid", POD_UID), body=body
        )
        return self.post(changes.get("body", body), token)

    def post(self, body: bytes, token: str) -> tuple[int, Answer]:
        """Send any body with any token."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.agent_port}/commands",
            data=body,
            headers={"authorization": f"Bearer {token}"},
        )
        code, answer = _send(request, 20)
        return code, Answer.model_validate_json(answer)

    def chat(self, text: str, tokens: int = 32, **more: Any) -> tuple[int, bytes]:
        """Send a user's request to the engine."""
        body = {
            "model": "kimi",
            "messages": [{"role": "user", "content": text}],
            "max_tokens": tokens,
            "temperature": 0,
            **more,
        }
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.engine_port}/v1/chat/completions",
            data=json.dumps(body).encode(),
            headers={"content-type": "application/json"},
        )
        return _send(request, 60)

    def wait(self, holds: Callable[[Status], bool], seconds: float, what: str) -> Status:
        """Wait until the status is so; the agent's end or the deadline raises with the log's tail."""
        deadline = time.monotonic() + seconds
        status = None
        while time.monotonic() < deadline:
            if self.process is not None and self.process.poll() is not None:
                raise AssertionError(f"the agent ended with {self.process.returncode}:\n{self.log[-3000:]}")
            try:
                status = self.status()
            except OSError:
                time.sleep(0.1)
                continue
            if holds(status):
                return status
            time.sleep(0.05)
        raise AssertionError(f"not within {seconds} s: {what}; {status!r}\n{self.log[-3000:]}")

    def wait_serving(self, seconds: float = 120) -> Status:
        """Wait until it serves."""
        return self.wait(lambda status: status.phase is Phase.SERVING, seconds, "Serving")

    def engine_pid(self) -> int:
        """Process of SGLang's launcher: the leader of the group that the agent started last."""
        words = [line for line in self.log.splitlines() if "started SGLang as process" in line][-1].split()
        return int(words[words.index("process") + 1].rstrip(","))

    def kill_container(self) -> None:
        """End the agent and everything that it started at once, as a container's end does."""
        if self.process is None:
            return
        self.process.kill()
        self.process.wait(10)
        try:
            os.killpg(self.engine_pid(), signal.SIGKILL)
        except (ProcessLookupError, IndexError):
            return
        until = time.monotonic() + 10
        while time.monotonic() < until and runs(self.engine_pid(), Path("/proc")):
            time.sleep(0.05)

    def kill_agent(self) -> None:
        """Kill the agent alone: what it started runs on."""
        assert self.process is not None
        self.process.kill()
        self.process.wait(10)

    def terminate(self, seconds: float = 60) -> int:
        """Ask the agent to end, as the kubelet does, and wait."""
        assert self.process is not None
        self.process.terminate()
        return self.process.wait(seconds)


def _send(request: urllib.request.Request, seconds: float) -> tuple[int, bytes]:
    try:
        with urllib.request.urlopen(request, timeout=seconds) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()
