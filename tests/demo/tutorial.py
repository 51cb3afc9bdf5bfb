"""Try docs/tutorial.md as a reader would: every command in its order, on the cluster that `make demo` made.

`python -m tests.demo.tutorial` prints each command with what it says, and fails if one ends otherwise than the page tells.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.demo.story import clean_up
from tests.support.paths import ROOT

PAGE = ROOT / "docs" / "tutorial.md"
BLOCK = re.compile(r"^```\n(.*?)^```$", re.MULTILINE | re.DOTALL)
GOES_ON = "kubectl specdec watch"
"""What the page has in a second terminal."""
SAYS_NO = re.compile(r"kubectl specdec preflight (kimi|--target)")
"""A preflight that finds what blocks exits with 1; of v6 it finds only what is mended."""
DEADLINE = 1200


def commands(page: str) -> list[str]:
    """Every command of the page, in order."""
    return [line for block in BLOCK.findall(page) for line in block.splitlines() if line.strip()]


def script(lines: list[str], ended: Path) -> str:
    """Write the commands as one shell session that notes how each ended, and shows at the end what was watched."""
    watched = ended.with_name("watched")
    told = []
    for line in lines:
        shown = line.replace("'", "'\\''")
        told.append(f"printf '\\n$ %s\\n' '{shown}'")
        if line.startswith(GOES_ON):
            told.append(f"{line} > {watched} & watching=$!; true")
        else:
            told.append(line)
        told.append(f"echo $? >> {ended}")
    return "\n".join((*told, "kill $watching 2>/dev/null; wait 2>/dev/null", f"echo; cat {watched}"))


def wrong() -> list[str]:
    """Run the page; returns each command that ended otherwise than it tells, with its exit code."""
    lines = commands(PAGE.read_text())
    clean_up()
    with tempfile.TemporaryDirectory() as folder:
        ended = Path(folder) / "ended"
        subprocess.run(["bash", "-c", script(lines, ended)], cwd=ROOT, check=True, timeout=DEADLINE)
        codes = [int(code) for code in ended.read_text().split()]
    ends = list(zip(lines, codes, strict=True))
    found = [f"{line}: {code}" for line, code in ends if code > bool(SAYS_NO.match(line))]
    print(f"\n{len(lines)} commands, {len(found)} ended otherwise than the page tells", *found, sep="\n")
    return found


if __name__ == "__main__":
    sys.exit(1 if wrong() else 0)
