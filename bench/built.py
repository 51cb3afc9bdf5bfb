"""Programs of others that benchmarks run, each built once from a Go module of its own."""

from __future__ import annotations

import os
from pathlib import Path

from tests.cluster.tooling.places import BIN
from tests.cluster.tooling.steps import run, step

BUILD_SECONDS = 1500


def built(module: Path, program: str) -> str:
    """Build what a module's go.mod names as its tool, and return the program's path."""
    made = BIN / program
    if not made.exists():
        with step(f"build {program} from its Go module"):
            environment = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly"}
            run("go", "build", "-trimpath", "-o", f"{BIN}/", "tool", cwd=module, env=environment, deadline=BUILD_SECONDS)  # fmt: skip
    return str(made)
