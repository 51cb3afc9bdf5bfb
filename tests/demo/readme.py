"""Put the last demo's pictures and outputs into README: `make demo && python -m tests.demo.readme`."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PICTURES = ("demo.png", "demo-status.svg")
BLOCK = re.compile(r"(<!-- demo:(?P<name>[a-z-]+) -->\n```\n).*?(```\n<!-- end -->)", re.DOTALL)


def filled(text: str, build: Path) -> str:
    """Fill every marked block with what the demo wrote under its name."""

    def block(found: re.Match[str]) -> str:
        return f"{found[1]}{(build / ('demo-' + found['name'] + '.txt')).read_text()}{found[3]}"

    return BLOCK.sub(block, text)


def main() -> int:
    """Rewrite README and its pictures in docs/images."""
    build = ROOT / "build"
    for name in PICTURES:
        if not (build / name).exists():
            print(f"build/{name} is missing: run `make demo` first", file=sys.stderr)
            return 1
    readme = ROOT / "README.md"
    readme.write_text(filled(readme.read_text(), build))
    for name in PICTURES:
        shutil.copyfile(build / name, ROOT / "docs" / "images" / name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
