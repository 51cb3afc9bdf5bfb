"""`python -m tests.gpu [pack FOLDER | show RESULTS]`: pack, run here and print; or one of it."""

from __future__ import annotations

import argparse
import json
import subprocess
from pathlib import Path
from typing import Any

from tests.gpu.pack import pack

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "build" / "gpu"
LAST = Path(__file__).parent / "results.json"


def main() -> None:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(prog="python -m tests.gpu", description=__doc__)
    parser.add_argument("verb", nargs="?", choices=("run", "pack", "show"), default="run")
    parser.add_argument("path", nargs="?", type=Path)
    arguments = parser.parse_args()
    match arguments.verb:
        case "pack":
            pack(arguments.path or FOLDER)
        case "show":
            show(json.loads((arguments.path or LAST).read_text()))
        case _:
            pack(FOLDER)
            done = subprocess.run(["bash", str(FOLDER / "run.sh"), str(FOLDER / "out")], check=False)
            show(json.loads((FOLDER / "out" / "results.json").read_text()))
            raise SystemExit(done.returncode)


def show(results: dict[str, Any]) -> None:
    """Print results as a table."""
    print(", ".join(f"{key} {value}" for key, value in results["machine"].items()))
    for row in results["rows"]:
        rest = {
            key: value
            for key, value in row.items()
            if key not in {"what", "mode", "batch", "server", "value", "unit"}
        }
        name = " ".join(str(row[key]) for key in ("what", "server", "mode", "batch") if key in row)
        print(
            f"{name:62} {row['value']:>10g} {row['unit']:6} {' '.join(f'{k}={v}' for k, v in rest.items())}"
        )
    for failure in results["failures"]:
        print(f"FAILED {failure}")


main()
