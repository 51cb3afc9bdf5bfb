"""The real engine on the host's CPU, with our plugin, for tests: started, asked, ordered about and ended.

It is the SGLang that `images/engine-cpu` installs into `$SPECDEC_CACHE/engine`, started as the agent starts it.
At most one serves at a time (:class:`EngineSlot`), since the tests' machine may have two cores; one that must fail to
start does so beside it.
"""

from __future__ import annotations

import http.client
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from tests.support.models import NAMES, kimi, make, tower
from tests.support.paths import CACHE
from tests.support.ports import free_ports

from specdec.engine import loopback
from specdec.engine.protocol import Counters, Drafting

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "build"
PROFILE = ROOT / "images" / "engine-cpu" / "engine.json"
PYTHON = CACHE / "engine" / "bin" / "python"

START_SECONDS = 180
REQUEST_SECONDS = 60
STEPS = 3


class EngineEndedError(Exception):
    """The engine's process ended while it was expected to run."""


@dataclass(frozen=True)
class Launch:
    """What an engine starts with."""

    drafter: str = "good"
    """Name of a tiny model; "" starts without speculative arguments."""
    drafting: Drafting = Drafting.ON
    arguments: tuple[str, ...] = ()
    environment: frozenset[tuple[str, str]] = frozenset()
    plugin: bool = True
    """Without it SGLang runs as it is, and drafts a fixed number of tokens."""
    target: Path | None = None
    """The tiny target unless given."""
    warms: bool = False
    """Whether SGLang sends requests of its own before it says that it is ready."""


@dataclass(frozen=True)
class Generation:
    """One answer of the engine, with SGLang's own figures for it."""

    tokens: list[int]
    calls: int
    drafts: int
    cached: int


@dataclass
class Engine:
    """A running engine."""

    process: subprocess.Popen[bytes]
    port: int
    run_dir: Path
    log: Path
    secret: str
    probe_prefix: str
    _order: int = field(default=0)

    def request(
        self, path: str, body: Any = None, *, secret: str | None = "", method: str | None = None
    ) -> tuple[int, bytes]:
        """Send one HTTP request; `secret` is the agent's unless given, None sends none."""
        try:
            with self._open(path, body, secret=secret, method=method) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read()

    def _open(
        self, path: str, body: Any, *, secret: str | None = "", method: str | None = None
    ) -> http.client.HTTPResponse:
        headers = {"content-type": "application/json"}
        if secret is not None:
            headers[loopback.SECRET_HEADER] = secret or self.secret
        data = None if body is None else json.dumps(body).encode()
        url = f"http://127.0.0.1:{self.port}{path}"
        request = urllib.request.Request(url, data=data, headers=headers, method=method)
        opened: http.client.HTTPResponse = urllib.request.urlopen(request, timeout=REQUEST_SECONDS)
        return opened

    def generate(
        self, prompt: list[int], tokens: int = 40, rid: str | None = None, *, temperature: float = 0
    ) -> Generation:
        """Ask for an answer of so many tokens, a greedy one unless a temperature is given."""
        body = _asked(prompt, tokens, temperature) | ({"rid": rid} if rid else {})
        status, answer = self.request("/generate", body)
        if status != 200:
            raise RuntimeError(f"/generate answered {status}: {answer!r}")
        document = json.loads(answer)
        meta = document["meta_info"]
        return Generation(
            document["output_ids"],
            meta.get("spec_verify_ct", 0),
            meta.get("spec_num_correct_drafts", 0),
            meta["cached_tokens"],
        )

    def stream(self, prompt: list[int], tokens: int) -> Iterator[list[int]]:
        """Ask for the same, and yield all of the answer so far whenever a part of it comes."""
        with self._open("/generate", _asked(prompt, tokens) | {"stream": True}) as answer:
            for line in answer:
                if line.startswith(b"data: {"):
                    document = json.loads(line.removeprefix(b"data: "))
                    if "error" in document:
                        raise RuntimeError(f"/generate broke off: {document['error']}")
                    yield document["output_ids"]

    def report(self, rank: int = 0) -> loopback.Report:
        """Ask the plugin in a rank's scheduler."""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(5)
            connection.connect(str(self.run_dir / f"scheduler-{rank}.sock"))
            with connection.makefile("rb") as stream:
                return loopback.Report.model_validate_json(stream.readline())

    def order(self, order: loopback.Stage | loopback.Commit | loopback.Steps) -> loopback.Outcome:
        """Give an order and wait for what becomes of it on all ranks; returns what the first one says that refused it, or rank 0."""
        self._order += 1
        path = self.run_dir / "commands" / f"{self._order}.json"
        path.write_text(order.model_dump_json(by_alias=True))
        body = {"server_args": {loopback.COMMAND_KEY: self._order}}
        status, answer = self.request("/set_internal_state", body)
        if status != 200:
            raise RuntimeError(f"/set_internal_state answered {status}: {answer!r}")
        ranks = range(len(list(self.run_dir.glob("scheduler-*.sock"))))
        deadline = time.monotonic() + REQUEST_SECONDS
        while time.monotonic() < deadline:
            found = [one for rank in ranks for one in self.report(rank).outcomes if one.number == self._order]
            if len(found) == len(ranks) and all(one.state != "working" for one in found):
                return next((one for one in found if one.state == "refused"), found[0])
            time.sleep(0.02)
        raise TimeoutError(f"order {self._order} is still working")

    def stage(self, folder: Path, revision: str) -> loopback.Outcome:
        """Stage a drafter."""
        return self.order(loopback.Stage(overlay=str(folder), revision=revision))

    def swap(self, name: str) -> loopback.Outcome:
        """Stage one of the tiny models and make it the serving drafter, under its own name."""
        staged = self.stage(models()[name], name)
        if staged.state != "done":
            raise RuntimeError(f"{name} was refused: {staged.reason}: {staged.message}")
        return self.order(loopback.Commit(stage=staged.number))

    def counters(self, **wanted: Any) -> Counters:
        """Sum of all counters whose fields have these values."""
        found = [
            row
            for row in self.report().counters
            if all(getattr(row, name) == value for name, value in wanted.items())
        ]
        longest = max((len(row.correct) for row in found), default=0)
        sums = {
            name: sum(getattr(row, name) for row in found)
            for name in ("requests", "calls", "tokens", "dd", "dc", "cc", "finished_drafts", "finished_calls")
        }
        correct = tuple(
            sum(row.correct[place] for row in found if place < len(row.correct)) for place in range(longest)
        )
        return Counters(revision="", steps=-1, source="traffic", correct=correct, **sums)

    def stop(self) -> None:
        """Kill the engine's process group: SGLang takes up to 12 s to end when it is asked."""
        with suppress(ProcessLookupError):
            # The launcher may have ended without its schedulers.
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        shutil.rmtree(self.run_dir, ignore_errors=True)


class EngineSlot:
    """Holds at most one engine; asking for another launch ends it."""

    def __init__(self) -> None:
        self._launch: Launch | None = None
        self._engine: Engine | None = None

    def use(self, launch: Launch) -> Engine:
        """Return an engine that was started so: the running one, or a new one."""
        if self._engine is None or self._launch != launch or self._engine.process.poll() is not None:
            self.clear()
            engine = start(launch)
            wait_until_serving(engine, plugin=launch.plugin)
            self._launch, self._engine = launch, engine
        return self._engine

    def clear(self) -> None:
        """End the running engine, if any."""
        engine, self._engine, self._launch = self._engine, None, None
        if engine is not None:
            engine.stop()


@cache
def models() -> dict[str, Path]:
    """Make the tiny models, once per test run."""
    return make(BUILD / "models", NAMES)


def seeing() -> Path:
    """Make the target that sees, beside those of :func:`models`."""
    return kimi(BUILD / "models" / "kimi-sees", tower=tower())


def start(launch: Launch) -> Engine:
    """Start an engine; :func:`wait_until_serving` waits for it."""
    _check_installed()
    (port,), profile = free_ports(1), json.loads(PROFILE.read_text())
    run_dir = Path(tempfile.mkdtemp(prefix="specdec-"))
    (run_dir / "commands").mkdir()
    secret, prefix = secrets.token_hex(16), f"probe-{secrets.token_hex(8)}-"
    BUILD.mkdir(exist_ok=True)
    log = BUILD / f"engine-{launch.drafter or 'plain'}-{port}.log"
    own = {
        loopback.RUN_DIR: str(run_dir),
        loopback.SECRET: secret,
        loopback.PROBE_PREFIX: prefix,
        loopback.REVISION: launch.drafter,
        loopback.DRAFTING: launch.drafting.value,
    }
    environment = {
        **os.environ,
        **profile["env"],
        # SGLang loads the plugins that are named; none has this name.
        **(own if launch.plugin else {"SGLANG_PLUGINS": "none"}),
        **dict(launch.environment),
    }
    command = [
        str(PYTHON),
        "-m",
        "sglang.launch_server",
        *profile["args"],
        *_arguments(launch, port, run_dir),
    ]
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,
            cwd=run_dir,
        )
    return Engine(process, port, run_dir, log, secret, prefix)


def wait_until_serving(engine: Engine, *, plugin: bool = True) -> None:
    """Wait until the engine has answered a request.

    Raises
    ------
    EngineEndedError
        It ended by itself; the message has the log's tail.
    TimeoutError
        It did not serve in time. Whatever is raised, nothing of the engine is left but its log.
    """
    try:
        _until_serving(engine, plugin=plugin)
    except BaseException:
        engine.stop()
        raise


def _until_serving(engine: Engine, *, plugin: bool) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not _serves(engine, plugin=plugin):
        if engine.process.poll() is not None:
            raise EngineEndedError(f"the engine ended with {engine.process.returncode}:\n{tail(engine.log)}")
        if time.monotonic() > deadline:
            raise TimeoutError(f"the engine did not serve within {START_SECONDS} s:\n{tail(engine.log)}")
        time.sleep(0.2)


def _serves(engine: Engine, *, plugin: bool) -> bool:
    return (not plugin or (engine.run_dir / "scheduler-0.sock").exists()) and _is_healthy(engine)


def _is_healthy(engine: Engine) -> bool:
    try:
        return engine.request("/health")[0] == 200
    except OSError:
        return False


def start_report(engine: Engine) -> loopback.StartReport:
    """Read what the plugin left about the drafter's load."""
    return loopback.StartReport.model_validate_json((engine.run_dir / loopback.START_REPORT).read_bytes())


def tail(log: Path, lines: int = 30) -> str:
    """Last lines of a log."""
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])


def _asked(prompt: list[int], tokens: int, temperature: float = 0) -> dict[str, Any]:
    sampling = {"max_new_tokens": tokens, "temperature": temperature, "ignore_eos": True}
    return {"input_ids": prompt, "sampling_params": sampling}


@contextmanager
def failing(launch: Launch) -> Iterator[Engine]:
    """Start an engine that must end by itself; :func:`wait_until_ended` waits for that."""
    engine = start(launch)
    try:
        yield engine
    finally:
        engine.stop()


def wait_until_ended(engine: Engine) -> None:
    """Wait for the end of an engine's start that must fail."""
    code = engine.process.wait(START_SECONDS)
    assert code != 0, tail(engine.log)


def _arguments(launch: Launch, port: int, run_dir: Path) -> list[str]:
    common = [
        *("--model-path", str(launch.target or models()["kimi"]), "--trust-remote-code"),
        *("--host", "127.0.0.1", "--port", str(port)),
        *("--context-length", "512", "--max-total-tokens", "4096", "--max-running-requests", "8"),
        *("--mem-fraction-static", "0.5", "--decode-log-interval", "1000"),
        *("--enable-metrics", *(() if launch.warms else ("--skip-server-warmup",))),
    ]
    if not launch.drafter:
        return [*common, *launch.arguments]
    adaptive = run_dir / "adaptive.json"
    adaptive.write_text(json.dumps({"1": {"candidate_steps": [0, STEPS]}}))
    switching = ("--speculative-adaptive", "--speculative-adaptive-config", str(adaptive))
    return [
        *common,
        *("--speculative-algorithm", "EAGLE3"),
        *("--speculative-draft-model-path", str(models()[launch.drafter])),
        *("--speculative-draft-model-quantization", "unquant"),
        *("--speculative-num-steps", str(STEPS), "--speculative-eagle-topk", "1"),
        *("--speculative-num-draft-tokens", str(STEPS + 1)),
        *(switching if launch.plugin else ()),
        *launch.arguments,
    ]


def _check_installed() -> None:
    """Without our package beside it SGLang would start as if nothing were missing, and no socket would come."""
    if not PYTHON.exists() or not list(
        PYTHON.parents[1].glob("lib/*/site-packages/specdec_operator-*.dist-info")
    ):
        raise RuntimeError(
            f"no engine with our plugin in {PYTHON.parents[1]}: `make test-engine` installs it"
        )
