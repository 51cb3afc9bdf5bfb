"""`python -m tests.gpu [run GROUP... | pack FOLDER | show RESULTS | keep RESULTS]`."""

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
NAMING = ("what", "server", "mode", "batch", "phase", "rung")
"""Keys of a row that tell which it is."""
Results = dict[str, dict[str, Any]]


def main() -> None:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(prog="python -m tests.gpu", description=__doc__)
    parser.add_argument("verb", choices=("run", "pack", "show", "keep"))
    parser.add_argument("words", nargs="*", metavar="WORD")
    arguments = parser.parse_args()
    path = Path(arguments.words[0]) if arguments.words else None
    match arguments.verb:
        case "pack":
            pack(path or FOLDER)
        case "show":
            show(json.loads((path or LAST).read_text()))
        case "keep":
            keep(json.loads((path or FOLDER / "out" / "results.json").read_text()))
        case _:
            pack(FOLDER)
            command = ["bash", str(FOLDER / "run.sh"), str(FOLDER / "out"), *arguments.words]
            done = subprocess.run(command, check=False)
            show(json.loads((FOLDER / "out" / "results.json").read_text()))
            raise SystemExit(done.returncode)


def keep(results: Results) -> None:
    """Replace the kept results of the parts that these are of."""
    kept = json.loads(LAST.read_text())
    LAST.write_text(json.dumps(dict(sorted((kept | results).items())), indent=1) + "\n")


def show(results: Results) -> None:
    """Print results as a table."""
    for part, found in results.items():
        print(f"{part}: {found['command']}, {', '.join(f'{k} {v}' for k, v in found['machine'].items())}")
        for row in found["rows"]:
            name = " ".join(str(row[key]) for key in NAMING if key in row)
            rest = [f"{k}={v}" for k, v in row.items() if k not in {*NAMING, "value", "unit"}]
            print(f"  {name:76} {row['value']:>10g} {row['unit']:6} {' '.join(rest)}")
        for failure in found["failures"]:
            print(f"  FAILED {failure}")


main()
