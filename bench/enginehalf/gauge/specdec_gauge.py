"""A plugin that weighs ours: CPU of the scheduler's thread inside our hooks, without what SGLang does inside them.

With this folder first on PYTHONPATH, SGLang finds it before our plugin. It is of the benchmark alone.
"""

from __future__ import annotations

import dataclasses
import json
import os
import socket
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

from specdec.engine import loopback
from specdec.engine.plugin import registration
from specdec.engine.plugin.hooks import Hook, Patch

SOCKET = "gauge.sock"


class Gauge:
    """One thread's CPU: it runs while the thread is in our code, and rests while it is in SGLang's."""

    def __init__(self) -> None:
        self.nanoseconds = 0
        self.calls: Counter[str] = Counter()
        self._thread = threading.get_ident()
        self._ours = False
        self._since = 0

    def switch(self, ours: bool) -> bool:
        """Go on in our code, or in SGLang's; returns what it was before."""
        now, was = time.thread_time_ns(), self._ours
        if was:
            self.nanoseconds += now - self._since
        self._ours, self._since = ours, now
        return was

    def weigh(self, hook: Hook) -> Hook:
        """Make the hook that does the same, and is weighed."""

        def weighed(original: Any, *args: Any, **kwargs: Any) -> Any:
            if threading.get_ident() != self._thread:
                return hook.around(original, *args, **kwargs)

            def theirs(*args: Any, **kwargs: Any) -> Any:
                was = self.switch(False)
                try:
                    return original(*args, **kwargs)
                finally:
                    self.switch(was)

            self.calls[hook.around.__name__] += 1
            was = self.switch(True)
            try:
                return hook.around(theirs, *args, **kwargs)
            finally:
                self.switch(was)

        return dataclasses.replace(hook, around=weighed)

    def serve(self, path: Path) -> None:
        """Answer everyone who connects with all that was weighed so far."""
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(path))
        listener.listen()
        while True:
            connection, _ = listener.accept()
            with connection:
                weighed = {"nanoseconds": self.nanoseconds, "calls": self.calls}
                connection.sendall(json.dumps(weighed).encode() + b"\n")


def register() -> None:
    """Have our plugin register weighed hooks in the scheduler."""
    plain = registration.scheduler_patches
    made: list[tuple[Patch, ...]] = []

    def weighed_patches() -> tuple[Patch, ...]:
        if not made:
            gauge = Gauge()
            made.append(
                tuple(
                    dataclasses.replace(patch, hooks=tuple(map(gauge.weigh, patch.hooks)))
                    for patch in plain()
                )
            )
            path = Path(os.environ[loopback.RUN_DIR]) / SOCKET
            threading.Thread(target=gauge.serve, args=(path,), daemon=True).start()
        return made[0]

    registration.scheduler_patches = weighed_patches
