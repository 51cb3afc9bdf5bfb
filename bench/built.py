"""Programs of others that benchmarks run, each built from a Go module of its own when that names another version."""

from __future__ import annotations

import os
from pathlib import Path

from tests.cluster.tooling import fingerprint, gotools
from tests.cluster.tooling.places import BIN
from tests.cluster.tooling.steps import run, step

BUILD_SECONDS = 1500


def built(module: Path, program: str) -> str:
    """Build what a module's go.mod names as its tool, and return the program's path."""
    made, stamp = BIN / program, gotools.STAMPS / program
    wanted = fingerprint.of_files([module / "go.mod", module / "go.sum"])
    if not made.exists() or not fingerprint.is_current(stamp, wanted):
        with step(f"build {program} from its Go module"):
            environment = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly"}
            run("go", "build", "-trimpath", "-o", f"{BIN}/", "tool", cwd=module, env=environment, deadline=BUILD_SECONDS)  # fmt: skip
        stamp.parent.mkdir(parents=True, exist_ok=True)
        stamp.write_text(wanted)
    return str(made)
