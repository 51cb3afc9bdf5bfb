"""Prometheus and promtool: taken out of Debian's package, since installing that would start a service."""

import shutil
import tempfile
from pathlib import Path

from .places import BIN
from .steps import run, step, succeeds

PACKAGE = "prometheus"
PROGRAMS = ("prometheus", "promtool")


def provide() -> None:
    """Put both into the cache: the machine's own, or Debian's."""
    missing = [name for name in PROGRAMS if not (BIN / name).exists()]
    found = {name: path for name in missing if (path := shutil.which(name))}
    for name, path in found.items():
        (BIN / name).unlink(missing_ok=True)  # a link to one that is gone
        (BIN / name).symlink_to(path)
    if wanted := [name for name in missing if name not in found]:
        with step(f"{' and '.join(wanted)} from Debian's package"):
            _unpack(wanted)


def _unpack(names: list[str]) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        folder.chmod(0o755)  # apt fetches as a user of its own
        if not succeeds("apt-get", "download", "-qq", "--print-uris", PACKAGE):
            run("apt-get", "update", "-qq")
        run("apt-get", "download", "-qq", PACKAGE, cwd=folder)
        (package,) = folder.glob("*.deb")
        run("dpkg", "-x", package, folder / "unpacked")
        for name in names:
            shutil.copy2(folder / "unpacked" / "usr" / "bin" / name, BIN / name)
