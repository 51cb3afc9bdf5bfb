"""promtool, which tests alert rules: taken out of Debian's package, since installing that would start a Prometheus."""

import shutil
import tempfile
from pathlib import Path

from .places import BIN
from .steps import run, step, succeeds

PACKAGE = "prometheus"


def provide() -> None:
    """Put promtool into the cache: the machine's own, or Debian's."""
    place = BIN / "promtool"
    if place.exists():
        return
    if found := shutil.which("promtool"):
        place.unlink(missing_ok=True)  # a link to one that is gone
        place.symlink_to(found)
        return
    with step("promtool from Debian's package"), tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)  # apt fetches as a user of its own
        if not succeeds("apt-get", "download", "-qq", "--print-uris", PACKAGE):
            run("apt-get", "update", "-qq")
        run("apt-get", "download", "-qq", PACKAGE, cwd=folder)
        (package,) = folder.glob("*.deb")
        run("dpkg", "-x", package, folder / "unpacked")
        shutil.copy2(folder / "unpacked" / "usr" / "bin" / "promtool", place)
