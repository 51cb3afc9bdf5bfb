"""The parts of `make test`: what each installs on a fresh machine, and what it runs: `python -m tests.parts [PART ...]`."""

from __future__ import annotations

import argparse
import subprocess
import sys

from tests.cluster.tooling.steps import step

Command = tuple[str, ...]

PYTHON = (sys.executable, "-m")
PROVIDE = (*PYTHON, "tests.cluster")
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
        ("pytest", "tests/unit", "tests/scenarios", "tests/faults", "tests/security", "-m", "not cluster"),
    ),
    "chart": ((*PROVIDE, "tools"), ("pytest", "tests/chart")),
    "engine": ((*PROVIDE, "engine"), ("pytest", "tests/engine")),
    "cluster": (
        (*PROVIDE, "up", "--with", "helm", "--with", "prometheus"),
        (*PROVIDE, "images", "--previous"),
        ("pytest", "tests/cluster", "tests/security", "-m", "cluster"),
    ),
}
"""In the order of their time: what fails soon fails first."""


def main() -> int:
    """Run the named parts, or all, up to the first command that fails."""
    parser = argparse.ArgumentParser(prog="python -m tests.parts", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    wanted = parser.parse_args().parts or list(PARTS)
    unknown = sorted(set(wanted) - set(PARTS))
    if unknown:
        parser.error(f"there is no part {', '.join(unknown)}, expected some of {', '.join(PARTS)}")
    for part in wanted:
        with step(f"test-{part}"):
            for command in PARTS[part]:
                status = subprocess.run(command, check=False).returncode
                if status:
                    return status
    return 0


if __name__ == "__main__":
    sys.exit(main())
