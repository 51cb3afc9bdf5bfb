"""`kubectl specdec preflight` and `convert`, as a person calls them."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner
from tests.support.golden import Recorded, recorded
from tests.support.headers import Fixture, kimi_k25, llama, mla, speculators

from specdec.cli.main import COMMANDS, specdec
from specdec.preflight.stories import STORIES

__all__ = ["recorded"]


def call(*words: str | Path):
    return CliRunner().invoke(specdec, [str(word) for word in words], prog_name="kubectl specdec")


@pytest.fixture
def place(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    kimi_k25().write(tmp_path / "Kimi-K2.5")
    return tmp_path


def judge(place: Path, drafter: Fixture, *more: str, version: str = "0.5.23"):
    drafter.write(place / "drafter")
    return call(
        "preflight", "--drafter", "drafter", "--target", "Kimi-K2.5", "--engine-version", version, *more
    )


@pytest.mark.parametrize(
    ("name", "drafter", "version", "code"),
    [
        ("sound", llama(), "0.5.23", 0),
        ("mended", speculators(), "0.5.23", 0),
        ("head-missing", mla().without("lm_head.weight").with_config(norm_before_residual=True), "0.5.23", 1),
        ("old-image", llama().renamed("midlayer.", "layers.0."), "0.5.9", 1),
        ("unknown-version", llama(), "0.9.0", 2),
    ],
)
def test_the_report_reads_as_before_and_the_exit_code_says_it(
    place, name, drafter, version, code, *, recorded: Recorded
):
    result = judge(place, drafter, version=version)
    recorded(f"preflight/{name}.txt", result.output)
    assert result.exit_code == code


def test_json_and_yaml_say_the_same(place):
    as_json = json.loads(judge(place, mla().without("lm_head.weight"), "-o", "json").output)
    as_yaml = yaml.safe_load(judge(place, mla().without("lm_head.weight"), "-o", "yaml").output)
    assert as_json == as_yaml
    assert as_json["verdict"] == "Blocked"
    assert as_json["findings"][0]["code"] == "HeadMissing"


def test_colours_are_for_terminals_only(place):
    assert "\x1b" not in judge(place, llama()).output
    coloured = CliRunner().invoke(
        specdec, ["preflight", "--drafter", "drafter", "--engine-version", "0.5.23"], color=True
    )
    assert "\x1b[" in coloured.output


@pytest.mark.parametrize("code", STORIES)
def test_every_code_is_explained_whatever_its_case(code):
    result = call("preflight", "--explain", code.lower())
    assert result.exit_code == 0
    assert STORIES[code].mend in result.output


def test_a_reason_that_only_engines_give_is_explained_too():
    result = call("preflight", "--explain", "tensorsnotconsumed")
    assert result.exit_code == 0
    assert result.output.startswith(
        "TensorsNotConsumed (of an engine; docs/reference/conditions.md has all)\n"
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["preflight"], "give --drafter"),
        (
            ["preflight", "--explain", "Nonsense"],
            "no finding is called Nonsense; docs/reference/preflight.md",
        ),
        (["preflight", "--drafter", "x", "--skip", "LayerIdAbsent"], "is LayerIdsAbsent meant?"),
        (["preflight", "--drafter", "x", "--layers", "2,x"], "no list such as 2,30,58"),
        (["preflight", "--drafter", "x", "--layers", "58,2,30"], "58,2,30 does not rise"),
        (["preflight", "--drafter", "x", "--env", "NAME"], "NAME is not NAME=VALUE"),
        (["preflight", "--drafter", "x", "--engine-args", "--a 'b"], "can't be split"),
        (["nonsense"], "No such command"),
    ],
)
def test_a_wrong_call_says_why_and_exits_with_2(words, said):
    result = call(*words)
    assert said in result.output
    assert result.exit_code == 2


def test_a_folder_that_is_not_there_blocks_in_one_sentence(place):
    result = call("preflight", "--drafter", "nowhere", "--target", "Kimi-K2.5", "--engine-version", "0.5.23")
    assert result.exit_code == 1
    assert "FileMissing" in result.output
    assert "Traceback" not in result.output


def test_digests_are_named(place):
    result = judge(place, mla(), "--target-name", "moonshotai/Kimi-K2.5", "--skip", "LayerIdsAbsent")
    assert result.exit_code == 0
    (place / "small").mkdir()
    llama().with_config().without(*llama().tensors).mapping([0]).write(place / "small")
    digested = call(
        "preflight", "--drafter", "small", "--target", "Kimi-K2.5", "--engine-version", "0.5.23", "--digest"
    )
    assert "drafter: sha256:" in digested.output


def test_engine_arguments_are_judged(place):
    result = judge(place, llama(), "--engine-args", "--tp-size 6 --port 1")
    assert "HeadsNotDivisible" in result.output
    assert "ArgumentOwned" in result.output
    whole = judge(place, llama(), "--argv", "--engine-args", "--speculative-algorithm EAGLE --model-path x")
    assert "AlgorithmDiffers" in whole.output


def test_convert_refuses_what_it_can_not_mend_and_writes_nothing(place):
    mla().without("lm_head.weight").write(place / "drafter")
    words = ("--target", "Kimi-K2.5", "--engine-version", "0.5.23", "--to", "out")
    result = call("convert", "--drafter", "drafter", *words)
    assert result.exit_code == 1
    assert not (place / "out").exists()
    (place / "out").mkdir()
    mla().write(place / "drafter")
    assert "nothing is overwritten" in call("convert", "--drafter", "drafter", *words).output


def test_help_lists_the_commands_without_importing_them():
    script = (
        "import sys; from specdec.cli.main import specdec\n"
        "try: specdec(['--help'])\nexcept SystemExit: pass\n"
        "sys.exit(any(m in sys.modules for m in ('specdec.preflight', 'huggingface_hub', 'yaml', 'pydantic')))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert all(command in done.stdout for command in COMMANDS)


# The hub: a local server that speaks as much of its API as headers by range need.


class Hub(BaseHTTPRequestHandler):
    """One repository, org/drafter at main = c0ffee."""

    folder: Path
    sent = 0
    requests = 0
    busy = False

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        return

    def do_GET(self) -> None:
        if self.path.startswith("/api/models/org/drafter/revision/main"):
            files = [
                {"rfilename": path.name, "size": path.stat().st_size}
                for path in sorted(self.folder.iterdir())
            ]
            self._answer(200, json.dumps({"id": "org/drafter", "sha": "c0ffee", "siblings": files}).encode())
        elif self.busy and "safetensors" in self.path:
            self._answer(503, b"")
        elif self.path.startswith("/org/drafter/resolve/c0ffee/"):
            self._range((self.folder / self.path.rpartition("/")[2]).open("rb"))
        else:
            self._answer(404, b"{}")

    def _range(self, file) -> None:
        first, last = (int(place) for place in self.headers["Range"].removeprefix("bytes=").split("-"))
        with file:
            file.seek(first)
            self._answer(206, file.read(last - first + 1))

    def _answer(self, status: int, body: bytes) -> None:
        type(self).sent += len(body)
        # The client also asks for what has nothing to do with the repository.
        type(self).requests += "/org/drafter" in self.path
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def hub(tmp_path, monkeypatch) -> Iterator[type[Hub]]:
    Hub.folder, Hub.sent, Hub.requests, Hub.busy = llama().write(tmp_path / "served"), 0, 0, False
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    yield Hub
    server.shutdown()
    server.server_close()
    thread.join()


def through_a_child(*words: str):
    """The hub's client reads its variables when it is imported."""
    command = [sys.executable, "-c", "from specdec.cli.main import main; main()", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_a_repository_is_judged_by_ranges_and_its_revision_is_pinned(hub, place):
    words = (
        "preflight",
        "--drafter",
        "hf://org/drafter",
        "--target",
        "Kimi-K2.5",
        "--engine-version",
        "0.5.23",
    )
    done = through_a_child(*words)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "hf://org/drafter@c0ffee" in done.stdout
    # Config, header and the two tables of the token map; the weights have gigabytes.
    assert hub.sent < 1 << 20
    # The listing, the config, the header with its length, d2t and t2d.
    assert hub.requests == 5


@pytest.mark.parametrize("name", ["hf://org/nothing", "hf://org/drafter@gone"])
def test_a_repository_that_is_not_there_is_a_finding(hub, place, name):
    done = through_a_child("preflight", "--drafter", name, "--engine-version", "0.5.23")
    assert done.returncode == 1, done.stderr
    assert "FileMissing" in done.stdout
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "variables", [{"HF_ENDPOINT": "http://127.0.0.1:9"}, {"HF_HUB_OFFLINE": "1"}], ids=["nobody", "offline"]
)
def test_a_hub_that_does_not_answer_is_no_fault_of_the_drafter(hub, place, monkeypatch, variables):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    done = through_a_child("preflight", "--drafter", "hf://org/drafter", "--engine-version", "0.5.23")
    assert done.returncode == 2, done.stderr
    assert "HubUnreachable" in done.stdout
    assert "Traceback" not in done.stderr


def test_a_hub_that_is_busy_in_the_middle_is_no_fault_either_and_nothing_is_converted(hub, place):
    hub.busy = True
    words = ("--drafter", "hf://org/drafter", "--target", "Kimi-K2.5", "--engine-version", "0.5.23")
    done = through_a_child("convert", *words, "--to", str(place / "out"))
    assert done.returncode == 2, done.stdout + done.stderr
    assert "answered 503" in done.stdout
    assert not (place / "out").exists()
