"""What the operator is made of, and what is known against it: `python -m tests.supply`.

build/sbom.cdx.json lists every locked package (CycloneDX); build/audit.txt is a report of known vulnerabilities. The
report stops nobody: advisories come out on their own days, and their database may be out of reach.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

BUILD = Path(__file__).parents[1] / "build"
PARTS = ("--frozen", "--all-extras", "--no-dev")
AUDIT_SECONDS = 120
FINDINGS = 1
UNREACHED = "error sending request for url"
UV = os.environ.get("UV", "uv")
"""`uv run` names itself to what it runs."""


def bill_of_materials(path: Path) -> None:
    """Write the list of the locked packages that the images hold."""
    command = (UV, "export", "--quiet", *PARTS, "--format", "cyclonedx1.5", "--output-file", str(path))
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=120)


def audit(path: Path, *options: str) -> str:
    """Write the report; returns its outcome in a sentence."""
    command = (UV, "audit", "--frozen", "--no-dev", *options)
    try:
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=AUDIT_SECONDS)
    except subprocess.TimeoutExpired:
        path.write_text(f"no answer from the database of advisories within {AUDIT_SECONDS} s\n")
        return "not audited: the database of advisories did not answer"
    path.write_text(done.stdout + done.stderr)
    return outcome(done.returncode, done.stderr, path.name)


def outcome(code: int, errors: str, report: str) -> str:
    """Say what uv's exit code and words come to.

    uv 0.13 ends with 1 where it has findings and with 2 where it could not look.
    """
    if code == 0:
        return "nothing is known against the locked packages"
    if code == FINDINGS:
        return f"there are findings: see {report}"
    if UNREACHED in errors:
        return f"not audited: the database of advisories is out of reach: see {report}"
    (first, *_) = [*errors.splitlines(), "uv said nothing"]
    return f"not audited: {first.removeprefix('error: ')} (exit code {code})"


def main() -> int:
    """Write both."""
    BUILD.mkdir(exist_ok=True)
    bill_of_materials(BUILD / "sbom.cdx.json")
    print(audit(BUILD / "audit.txt", *sys.argv[1:]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
