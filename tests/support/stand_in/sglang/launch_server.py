"""Answers what the agent asks of SGLang, and misbehaves as `STAND_IN_FAULTS` says.

That file holds a JSON list, one object for each start: `say` (lines to log), `pause` (seconds after each), `exit` (code), `hang` (never
serve), `deaf` (ignore SIGTERM), `without` (a patch that is not in force), `chat` ("hang", "error", "die", "empty",
or with drafting another last token: "near" a tie, "far" from one), `stage` ("hang"), `orphan` (leave a grandchild
behind). A start beyond the list is a healthy one.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import signal
import socket
import socketserver
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

RUN = Path(os.environ["SPECDEC_RUN_DIR"])
NEAR, FAR = 1000, 1001
"""Token ids that no healthy answer has."""
PATCHES = [
    "control",
    "counters",
    "report",
    "routes",
    "strict_load",
    "overlay",
    "embedding_capture",
    "norm_before_residual",
    "swap",
    "drafting",
    "plain_decode",
]


class Engine:
    """What the scheduler would know."""

    def __init__(self, overlay: str | None, steps: int, faults: dict) -> None:
        self.faults = faults
        self.revision = os.environ["SPECDEC_REVISION"]
        self.quality = quality_of(overlay) if overlay else 0.0
        self.most = steps if overlay else 0
        self.steps = self.most if os.environ["SPECDEC_DRAFTING"] == "On" else 0
        self.staged: dict[int, tuple[str, float]] = {}
        self.outcomes: list[dict] = []
        self.rows: dict[tuple[str, int, str], dict] = {}
        self.in_flight = 0
        self.lock = threading.Lock()

    def report(self) -> dict:
        return {
            "rank": 0,
            "sglang": "0.0.0",
            "patches": [patch for patch in PATCHES if patch != self.faults.get("without")],
            "revision": self.revision,
            "steps": self.steps,
            "states": [0, self.most] if self.most else [],
            "plain": bool(self.most),
            "load": {"fed": 2, "tensors": 3, "consumed": 2, "allowed": ["t2d: derived from d2t"]},
            "inFlight": self.in_flight,
            "outcomes": self.outcomes[-16:],
            "counters": list(self.rows.values()),
        }

    def order(self, number: int) -> None:
        order = json.loads((RUN / "commands" / f"{number}.json").read_text())
        outcome = {"number": number, "state": "done", "seconds": "0.001", "inFlight": self.in_flight}
        if order["op"] == "stage":
            quality = quality_of(order["overlay"])
            if self.faults.get("stage") == "hang":
                outcome["state"] = "working"
            elif quality < 0:
                outcome |= {
                    "state": "refused",
                    "reason": "TensorsNotConsumed",
                    "message": "names that nobody knows",
                }
            else:
                self.staged[number] = (order["revision"], quality)
                outcome["message"] = "2 of 3 tensors consumed by 2 parameters; t2d derived from d2t"
        elif order["op"] == "commit":
            if order["stage"] in self.staged:
                self.revision, self.quality = self.staged[order["stage"]]
            else:
                outcome |= {"state": "refused", "reason": "NotStaged", "message": "no such stage"}
        else:
            self.steps = order["steps"]
        self.outcomes.append(outcome)

    @contextlib.contextmanager
    def flight(self) -> Iterator[None]:
        with self.lock:
            self.in_flight += 1
        try:
            yield
        finally:
            with self.lock:
                self.in_flight -= 1

    def answer(self, rid: str, prompt: str, tokens: int) -> list[int]:
        """Answer with the same token ids whenever the prompt is the same, and count as the plugin does."""
        source = "probe" if rid.startswith(os.environ["SPECDEC_PROBE_PREFIX"]) else "traffic"
        with self.lock:
            blank = {
                "revision": self.revision,
                "steps": self.steps,
                "source": source,
                "requests": 0,
                "calls": 0,
                "correct": [0] * self.steps,
                "tokens": 0,
                "seconds": "0",
            }
            row = self.rows.setdefault((self.revision, self.steps, source), blank)
            row["requests"] += 1
            row["tokens"] += tokens
            row["seconds"] = f"{float(row['seconds']) + tokens * (0.01 if self.steps else 0.02):.6f}"
            for _ in range(tokens if self.steps else 0):
                row["calls"] += 1
                if random.random() < self.quality:
                    row["correct"][0] += 1
        words = [ord(letter) for letter in random.Random(prompt).choices("abcdefghijklmnop ", k=tokens * 3)]
        other = {"near": NEAR, "far": FAR}.get(self.faults.get("chat"))
        return [*words[:-1], other] if other and self.steps else words


def scored(ids: list[int], start: int) -> dict:
    """Log-probabilities of a prompt: the best token everywhere but where a fault has put another one."""
    below = {NEAR: 0.125, FAR: 5.0}
    told = [[-1.0 - below.get(token, 0.0), token, None] for token in ids[start:]]
    best = [[[-1.0, token, None]] for token in ids[start:]]
    return {"meta_info": {"input_token_logprobs": told, "input_top_logprobs": best}}


def quality_of(overlay: str) -> float:
    return float(json.loads((Path(overlay) / "config.json").read_text())["quality"])


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    engine: Engine

    def log_message(self, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        self.reply({"data": []})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if self.path == "/set_internal_state":
            if self.headers.get("x-specdec-secret") != os.environ["SPECDEC_SECRET"]:
                self.reply({}, 403)
                return
            self.engine.order(body["server_args"]["specdec_command"])
            self.reply({"updated": True})
            return
        if self.path == "/generate":
            self.reply(scored(body["input_ids"], body["logprob_start_len"]))
            return
        if self.path == "/freeze_gc":
            self.reply({})
            return
        match self.engine.faults.get("chat"):
            case "hang":
                time.sleep(600)
            case "error":
                self.reply({"error": "on purpose"}, 500)
                return
            case "die":
                # Its clients see it before its parent does, as with the real one.
                self.connection.shutdown(socket.SHUT_RDWR)
                time.sleep(0.3)
                os._exit(7)
        if self.engine.quality > 1:
            # A drafter whose map leads out of the vocabulary does that to the real one.
            os._exit(7)
        with self.engine.flight():
            time.sleep(float(body.get("delay", 0.002)))
            prompt = json.dumps(body["messages"][0]["content"])
            ids = self.engine.answer(body.get("rid", ""), prompt, body["max_tokens"])
        text = "" if self.engine.faults.get("chat") == "empty" else "".join(map(chr, ids))
        choice = {"message": {"content": text}, "prompt_token_ids": [1, 2, 3], "response_token_ids": ids}
        self.reply({"choices": [choice]})

    def reply(self, document: dict, status: int = 200) -> None:
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class Reporter(socketserver.StreamRequestHandler):
    engine: Engine

    def handle(self) -> None:
        report = json.dumps(self.engine.report()).encode()
        with contextlib.suppress(BrokenPipeError):  # a start that has failed asks no more
            self.wfile.write(report + b"\n")


class WebServer(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *args: object) -> None:
        # A probe that was decided closes its connections.
        pass


class ReportServer(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True


def next_faults() -> dict:
    path = Path(os.environ["STAND_IN_FAULTS"])
    planned = json.loads(path.read_text()) if path.exists() else []
    if not planned:
        return {}
    path.write_text(json.dumps(planned[1:]))
    return planned[0]


def main() -> None:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--port", type=int)
    parser.add_argument("--speculative-draft-model-path")
    parser.add_argument("--speculative-num-steps", type=int, default=0)
    given, _ = parser.parse_known_args()
    faults = next_faults()
    if faults.get("deaf"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if faults.get("orphan"):
        # In a session of its own, and its parent is gone at once: nobody but PID 1 can wait for it.
        nap = (
            "import subprocess, sys; subprocess.Popen([sys.executable, '-c', 'pass'], start_new_session=True)"
        )
        subprocess.run([sys.executable, "-c", nap], check=True)
    for line in faults.get("say", ()):
        print(line, flush=True)
        time.sleep(faults.get("pause", 0))
    if "exit" in faults:
        sys.exit(faults["exit"])
    if faults.get("hang"):
        time.sleep(600)
    engine = Engine(given.speculative_draft_model_path, given.speculative_num_steps, faults)
    Handler.engine = Reporter.engine = engine
    web = WebServer(("127.0.0.1", given.port), Handler)
    reports = ReportServer(str(RUN / "scheduler-0.sock"), Reporter)
    threading.Thread(target=reports.serve_forever, daemon=True).start()
    print("The server is fired up and ready to roll!", flush=True)
    web.serve_forever()


if __name__ == "__main__":
    main()
