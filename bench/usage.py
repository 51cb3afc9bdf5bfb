"""Runs one command and prints what it took: `python -m bench.usage COMMAND...`.

Apart from the benchmarks, because Linux counts a process's peak from before its exec: the child of a large
process begins with the peak of its parent.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Usage:
    """One run of a command."""

    code: int
    seconds: float
    peak_mb: float


def used(*command: str | os.PathLike[str]) -> Usage:
    """Run a command out of a small process; its output goes nowhere."""
    words = [sys.executable, "-m", "bench.usage", *map(os.fspath, command)]
    found = subprocess.run(words, stdout=subprocess.PIPE, check=True)
    return Usage(**json.loads(found.stdout))


def main() -> None:
    """Run the command line's rest."""
    begin = time.perf_counter()
    child = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    seconds = time.perf_counter() - begin
    child.returncode = os.waitstatus_to_exitcode(status)
    print(json.dumps(asdict(Usage(child.returncode, seconds, usage.ru_maxrss / 1024))))


if __name__ == "__main__":
    main()
