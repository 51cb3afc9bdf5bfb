"""`kubectl specdec` as a program: start, completion, help, and what it says to a real HTTP server."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from specdec.cli.completion import NO_FILES, words
from specdec.cli.main import COMMANDS, specdec


def call(*arguments: str):
    return CliRunner().invoke(specdec, list(arguments), prog_name="kubectl specdec")


def test_no_command_imports_what_is_heavy_before_it_runs():
    script = (
        "import sys, specdec.cli.main as m\n"
        "for name in m.COMMANDS: m.specdec.get_command(None, name)\n"
        "heavy = ('kubernetes', 'aiohttp', 'matplotlib', 'huggingface_hub', 'kopf')\n"
        "sys.exit(', '.join(name for name in heavy if name in sys.modules) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(name):
    result = call(name, "--help")
    assert result.exit_code == 0
    if name not in {"preflight", "convert"}:
        assert f"kubectl specdec {name}" in result.output.split("Examples:")[1]


def test_kubectl_completes_commands_and_options():
    assert [line.partition("\t")[0] for line in words(["un"])] == ["undo", "unpin"]
    assert any(line.startswith("--to-revision") for line in words(["undo", "kimi", "--to"]))
    assert [line.partition("\t")[0] for line in words(["drafting", "kimi", "o"])] == ["on", "off"]
    done = subprocess.run(
        [Path(sys.executable).parent / "kubectl_complete-specdec", "pau"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines()[-1] == NO_FILES
    assert done.stdout.startswith("pause\t")


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_shells_complete_the_program_itself(shell):
    assert "_KUBECTL_SPECDEC_COMPLETE" in call("completion", shell).output


# An API server that knows one server, and notes what it was asked.


class Api(BaseHTTPRequestHandler):
    asked: list[tuple[str, str, str, Any]]

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        return

    def _do(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length)) if length else None
        self.asked.append((self.command, self.path, self.headers["Content-Type"], body))
        if "/namespaces/secret/" in self.path:
            said = 'specdecodeservers is forbidden: User "me" cannot get it'
            self._answer(403, {"message": said})
        elif self.path.startswith("/apis/specdec.dev/v1alpha1/namespaces/llm/specdecodeservers/kimi"):
            spec = {"target": {"model": "pvc://models/t"}}
            metadata = {
                "name": "kimi",
                "namespace": "llm",
                "uid": "u",
                "generation": 1,
                "resourceVersion": "1",
            }
            self._answer(200, {"kind": "SpecDecodeServer", "metadata": metadata, "spec": spec})
        elif self.path.endswith("/missing"):
            self._answer(404, {"message": "not found"})
        else:
            self._answer(200, {"metadata": {"resourceVersion": "1"}, "items": []})

    do_GET = do_PATCH = _do  # noqa: N815

    def _answer(self, status: int, body: dict[str, Any]) -> None:
        text = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)


@pytest.fixture
def api() -> Iterator[ThreadingHTTPServer]:
    Api.asked = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), Api)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def kubeconfig(api, tmp_path, monkeypatch) -> Path:
    context = {"cluster": "c", "user": "u", "namespace": "llm"}
    path = tmp_path / "config"
    path.write_text(
        yaml.safe_dump(
            {
                "current-context": "here",
                "clusters": [
                    {"name": "c", "cluster": {"server": f"http://127.0.0.1:{api.server_port}"}},
                    {"name": "gone", "cluster": {"server": "http://127.0.0.1:9"}},
                ],
                "contexts": [
                    {"name": "here", "context": context},
                    {"name": "away", "context": {**context, "cluster": "gone"}},
                ],
                "users": [{"name": "u", "user": {"token": "t"}}],
            }
        )
    )
    monkeypatch.delenv("KUBECONFIG", raising=False)
    return path


def test_it_asks_in_the_contexts_namespace_and_patches_as_its_user(kubeconfig):
    assert call("status", "kimi", "--kubeconfig", str(kubeconfig)).exit_code == 0
    result = call("pause", "kimi", "--kubeconfig", str(kubeconfig))
    assert result.output == "kimi in llm: rollout.paused is true already\n"
    method, path, kind, body = Api.asked[-1]
    assert (method, kind) == ("PATCH", "application/merge-patch+json")
    assert path.endswith("/specdecodeservers/kimi?fieldManager=kubectl-specdec")
    assert body == {"spec": {"rollout": {"paused": True}}}
    events = next(path for _, path, _, _ in Api.asked if "/events?" in path)
    assert "involvedObject.name%3Dkimi" in events


def test_watch_has_a_screen_of_its_own_on_a_terminal_and_gives_it_back(kubeconfig):
    ours, theirs = pty.openpty()
    program = Path(sys.executable).parent / "kubectl-specdec"
    words = [program, "watch", "kimi", "--timeout", "0.1", "--kubeconfig", kubeconfig]
    done = subprocess.run(words, stdout=theirs, stderr=subprocess.PIPE, timeout=60, check=False)
    os.close(theirs)
    shown = b""
    with contextlib.suppress(OSError):  # how a pseudo-terminal ends
        while piece := os.read(ours, 65536):
            shown += piece
    os.close(ours)
    assert done.returncode == 0, done.stderr
    assert shown.startswith(b"\x1b[?1049h")
    assert shown.endswith(b"\x1b[?1049l")
    assert b"kimi in llm" in shown


@pytest.mark.parametrize(
    ("words", "said", "code"),
    [
        (["-n", "secret"], "you may not get specdecodeservers.specdec.dev in namespace secret", 2),
        (["--context", "away"], "get specdecodeservers kimi in namespace llm failed", 2),
        (["--context", "nowhere"], "no cluster is configured", 2),
    ],
)
def test_trouble_with_the_cluster_is_one_sentence(kubeconfig, words, said, code):
    result = call("status", "kimi", "--kubeconfig", str(kubeconfig), *words)
    assert result.exit_code == code
    assert said in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_without_a_kubeconfig_it_says_so(tmp_path):
    result = call("status", "--kubeconfig", str(tmp_path / "none"))
    assert (result.exit_code, "no cluster is configured" in result.stderr) == (2, True)


def test_what_is_missing_is_a_no(kubeconfig):
    assert call("status", "missing", "--kubeconfig", str(kubeconfig)).exit_code == 1
