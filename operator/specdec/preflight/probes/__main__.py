"""Check the capability table against wheels; exit 1 where a version does not do what its row says."""

from __future__ import annotations

import argparse
import sys

from specdec.preflight.argument_table import PATH, folded, text_of
from specdec.preflight.capabilities import POSTS, TABLE, capabilities
from specdec.preflight.probes.arguments import argument_names
from specdec.preflight.probes.claims import ALWAYS, CLAIMS
from specdec.preflight.probes.wheel import Wheel, WheelUnavailableError, fetch


def differences(wheel: Wheel) -> list[str]:
    """Sentences on what a wheel does other than its row says."""
    row = capabilities(wheel.version)
    if row is None:
        newest = list(TABLE.values())[-1]
        said = [(claim, getattr(newest, claim.field), claim.ask(wheel)) for claim in CLAIMS]
        new = [
            f"{claim.field}: {there!r}, {newest.version} has {was!r}"
            for claim, was, there in said
            if was != there
        ]
        return ["is not in the table: add a row", *new]
    wrong = [
        f"{claim.field}: the table says {getattr(row, claim.field)!r}, {claim.place} says {claim.ask(wheel)!r}"
        for claim in CLAIMS
        if getattr(row, claim.field) != claim.ask(wheel)
    ]
    return wrong + [
        f"no longer true: {claim.field} ({claim.place})" for claim in ALWAYS if not claim.ask(wheel)
    ]


def main() -> int:
    """Probe the versions named, or all."""
    parser = argparse.ArgumentParser(prog="python -m specdec.preflight.probes", description=__doc__)
    parser.add_argument("versions", nargs="*", metavar="VERSION", help="default: every version of the table")
    parser.add_argument("--write", action="store_true", help=f"renew {PATH.name} from the wheels")
    options = parser.parse_args()
    versions = options.versions or [*TABLE, *sorted(POSTS)]
    names: dict[str, dict[str, str]] = {}
    failed = 0
    for version in versions:
        try:
            wheel = fetch(version)
        except WheelUnavailableError as error:
            sys.stdout.write(f"sglang {version:14} {error}\n")
            failed += 1
            continue
        wrong = differences(wheel)
        names[version] = dict(argument_names(wheel))
        failed += bool(wrong)
        verdict = (
            "; ".join(wrong) or f"{len(CLAIMS) + len(ALWAYS)} claims hold, {len(names[version])} arguments"
        )
        sys.stdout.write(f"sglang {version:14} {verdict}\n")
    if not options.versions:
        failed += _arguments(names, write=options.write)
    return bool(failed)


def _arguments(names: dict[str, dict[str, str]], *, write: bool) -> bool:
    """Compare arguments.json with the wheels, or renew it."""
    text = text_of(folded({version: found for version, found in names.items() if version in TABLE}))
    if write:
        PATH.write_text(text)
    same = PATH.is_file() and PATH.read_text() == text
    if not same:
        sys.stdout.write(
            f"{PATH.name} differs from the wheels: run python -m specdec.preflight.probes --write\n"
        )
    return not same


if __name__ == "__main__":
    sys.exit(main())
