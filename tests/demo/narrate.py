"""What the demo says while it runs: its own sentences, and kubectl's rows and events as they come."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Iterator
from types import TracebackType
from typing import Any, Self

from tests.support.kubectl import KUBECTL, as_person

BEGIN = time.monotonic()


def say(sentence: str) -> None:
    """Print one sentence with the time since the start."""
    print(f"[{time.monotonic() - BEGIN:6.1f} s] {sentence}", flush=True)


def baseline(status: dict[str, Any]) -> Iterator[str]:
    """Tell what the first warm-up found and how the drafter was read, from the server's status."""
    warmup = status["warmup"]
    yield f"the drafter's load: {status.get('drafterLoad') or 'not told'}"
    shares = ", ".join(warmup.get("perPosition", ()))
    yield f"its warm-up: accept length {warmup.get('acceptLength', '-')} (by position {shares or '-'})"
    for speed in warmup.get("speeds", ()):
        at_once = f"{speed['batch']} at once"
        yield f"its warm-up: {speed.get('drafting', '-')} tok/s drafting, {speed.get('without', '-')} without, {at_once}"
    yield f"its warm-up: greedy answers with drafting and without: {warmup.get('answers', 'Unknown')}"


class Follow:
    """Prints what a watching kubectl prints, each line behind a mark, until the block ends."""

    def __init__(self, mark: str, *args: str) -> None:
        self.mark = mark
        self.args = args
        self.lines: list[str] = []
        """What was printed so far."""

    def __enter__(self) -> Self:
        """Start kubectl."""
        self.process = subprocess.Popen(
            [KUBECTL, *self.args],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=as_person(),
        )
        self.thread = threading.Thread(target=self._print, daemon=True)
        self.thread.start()
        return self

    def _print(self) -> None:
        for line in self.process.stdout or ():
            self.lines.append(line.rstrip())
            print(f"{'':10} {self.mark} {line.rstrip()}", flush=True)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End kubectl."""
        self.process.terminate()
        self.process.wait(timeout=10)
        self.thread.join(timeout=5)
        if self.process.stdout:
            self.process.stdout.close()


def rows(namespace: str, server: str) -> Follow:
    """Follow `kubectl get sds -w`."""
    return Follow("sds  |", "get", "sds", server, "-n", namespace, "-w")


def events(namespace: str) -> Follow:
    """Follow the server's events."""
    return Follow(
        "event|",
        "get",
        "events",
        "-n",
        namespace,
        "-w",
        "--field-selector=involvedObject.kind=SpecDecodeServer",
        "-o=custom-columns=TYPE:.type,REASON:.reason,MESSAGE:.message",
    )


def watch(namespace: str, server: str) -> Follow:
    """Follow the server as a person does who has no terminal: plain lines."""
    return Follow("watch|", "specdec", "watch", server, "-n", namespace)
