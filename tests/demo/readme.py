"""Put the last demo's picture and outputs into README: `make demo && python -m tests.demo.readme`."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"(<!-- demo:(?P<name>[a-z-]+) -->\n```\n).*?(```\n<!-- end -->)", re.DOTALL)


def filled(text: str, build: Path) -> str:
    """Fill every marked block with what the demo wrote under its name."""

    def block(found: re.Match[str]) -> str:
        return f"{found[1]}{(build / ('demo-' + found['name'] + '.txt')).read_text()}{found[3]}"

    return BLOCK.sub(block, text)


def main() -> int:
    """Rewrite README and docs/images/demo.png."""
    build = ROOT / "build"
    if not (build / "demo.png").exists():
        print("build/demo.png is missing: run `make demo` first", file=sys.stderr)
        return 1
    readme = ROOT / "README.md"
    readme.write_text(filled(readme.read_text(), build))
    shutil.copyfile(build / "demo.png", ROOT / "docs" / "images" / "demo.png")
    return 0


if __name__ == "__main__":
    sys.exit(main())
