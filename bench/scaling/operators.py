"""The operators that are compared, as processes whose CPU and memory are read."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

from bench.scaling.apiserver import ApiServer
from bench.scaling.objects import IMAGE, NAMESPACE

ROOT = Path(__file__).parents[2]
OPERATORS = {
    "ours": (sys.executable, "-m", "specdec.controller.main"),
    "kopf": (sys.executable, "-m", "kopf", "run", "--standalone", "-n", NAMESPACE, "--quiet", "-m", "bench.scaling.naive"),
    "floor": (sys.executable, "-m", "bench.scaling.floor"),
}  # fmt: skip


class Process:
    """One operator's process, its CPU seconds and its memory."""

    def __init__(self, name: str, api: ApiServer, port: int = 0) -> None:
        environment = {
            **os.environ,
            "KUBECONFIG": str(api.kubeconfig),
            "BENCH_URL": api.url,
            "PYTHONPATH": f"{ROOT}:{ROOT / 'operator'}",
            "PYTHONWARNINGS": "ignore",
            "SPECDEC_DEFAULT_IMAGE": IMAGE,
            "SPECDEC_HTTP_HOST": "127.0.0.1",
            "SPECDEC_HTTP_PORT": str(port),
            "SPECDEC_LOG_LEVEL": "WARNING",
        }
        self._child = subprocess.Popen(OPERATORS[name], env=environment, stderr=subprocess.DEVNULL)
        self._proc = Path(f"/proc/{self._child.pid}")

    def __enter__(self) -> Self:
        """It runs already."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End it, whatever became of the measurement."""
        self.stop()

    def cpu(self) -> float:
        """CPU seconds so far."""
        fields = (self._proc / "stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory(self) -> float:
        """Resident MB."""
        text = (self._proc / "status").read_text()
        return int(text.partition("VmRSS:")[2].split()[0]) / 1024

    def stop(self, how: int = signal.SIGKILL) -> None:
        """End it."""
        self._child.send_signal(how)
        self._child.wait(30)
