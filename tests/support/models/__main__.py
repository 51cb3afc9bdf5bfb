"""Write the tiny models: `python -m tests.support.models OUT_DIR [NAME ...]`."""

from __future__ import annotations

import argparse
from pathlib import Path

from tests.support.models import NAMES, make


def main() -> None:
    """Write what the command line names."""
    parser = argparse.ArgumentParser(prog="python -m tests.support.models", description=__doc__)
    parser.add_argument("out_dir", type=Path)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(NAMES)}")
    arguments = parser.parse_args()
    unknown = set(arguments.names) - set(NAMES)
    if unknown:
        parser.error(f"no such model: {', '.join(sorted(unknown))}")
    for name, folder in make(arguments.out_dir, arguments.names or NAMES).items():
        print(f"{name}\t{folder}")


main()
