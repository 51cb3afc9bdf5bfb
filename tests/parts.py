"""The parts of `make test`: what each installs on a fresh machine, and what it runs: `python -m tests.parts [PART ...]`."""

from __future__ import annotations

import argparse
import subprocess
import sys

from tests.cluster.tooling.steps import step

Command = tuple[str, ...]

PYTHON = (sys.executable, "-m")
PROVIDE = (*PYTHON, "tests.cluster")
CLUSTER: tuple[Command, ...] = (
    (*PROVIDE, "up", "--with", "helm", "--with", "prometheus"),
    (*PROVIDE, "images", "--previous"),
)
PARTS: dict[str, tuple[Command, ...]] = {
    "lint": (
        ("ruff", "check", "."),
        ("ruff", "format", "--check", "--quiet", "."),
        ("mypy",),
        ("lint-imports",),
        (*PYTHON, "specdec.preflight.reference", "--check"),
        (*PYTHON, "specdec.cli.reference", "--check"),
        # A report, not a gate: build/sbom.cdx.json and build/audit.txt.
        (*PYTHON, "tests.supply"),
    ),
    "unit": (
        (
            *(
                "pytest",
                "tests/unit",
                "tests/scenarios",
                "tests/faults",
                "tests/security",
                "-m",
                "not cluster",
            ),
            *("--numprocesses", "auto", "--dist", "worksteal"),
        ),
    ),
    "chart": ((*PROVIDE, "tools"), ("pytest", "tests/chart")),
    "engine": ((*PROVIDE, "engine"), ("pytest", "tests/engine", "-m", "not nightly")),
    "cluster": (
        *CLUSTER,
        ("pytest", "tests/cluster", "tests/security", "-m", "cluster and not nightly"),
    ),
}
"""In the order of their time: what fails soon fails first."""
NIGHTLY = {
    "nightly": (
        (*PROVIDE, "engine"),
        *CLUSTER,
        ("pytest", "tests/engine", "tests/cluster", "-m", "nightly"),
    ),
}
"""Run only by its name: it takes minutes more than every change can wait for."""


def main() -> int:
    """Run the named parts, or all, up to the first command that fails."""
    parser = argparse.ArgumentParser(prog="python -m tests.parts", description=__doc__)
    known = PARTS | NIGHTLY
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(known))
    wanted = parser.parse_args().parts or list(PARTS)
    unknown = sorted(set(wanted) - set(known))
    if unknown:
        parser.error(f"there is no part {', '.join(unknown)}, expected some of {', '.join(known)}")
    for part in wanted:
        with step(f"test-{part}"):
            for command in known[part]:
                status = subprocess.run(command, check=False).returncode
                if status:
                    return status
    return 0


if __name__ == "__main__":
    sys.exit(main())
