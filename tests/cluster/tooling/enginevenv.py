"""The CPU engine on this machine, for tests that need no cluster: the image's recipe, and our sources as they are."""

import os

from . import fingerprint, packages
from .places import ENGINE_VENV, IMAGE_FILES, REPOSITORY
from .steps import run, step

RECIPE = IMAGE_FILES / "engine-cpu"
PARTS = ("install.sh", "requirements.txt", "no-deps.txt", "cuda_stand_ins.py", "shim")
STAMP = ENGINE_VENV / ".made-from"
SOURCE_STAMP = ENGINE_VENV / ".source"


def install() -> None:
    """Install the engine unless it is there, and our package as an editable one of this checkout."""
    wanted = fingerprint.of_files(RECIPE / part for part in PARTS)
    if not fingerprint.is_current(STAMP, wanted):
        packages.install(packages.FOR_ENGINE)
        with step(f"CPU engine in {ENGINE_VENV}"):
            run(RECIPE / "install.sh", ENGINE_VENV, deadline=1200)
        STAMP.write_text(wanted)
    source = f"{REPOSITORY} {fingerprint.of_files([REPOSITORY / 'pyproject.toml'])}"
    if not fingerprint.is_current(SOURCE_STAMP, source):
        with step("our package in it, editable"):
            # Without its dependencies: SGLang's pins stay as they are.
            uv = os.environ.get("UV", "uv")  # set by `uv run`, where uv may not be on the path
            editable = (uv, "pip", "install", "--quiet", "--no-deps", "--editable", REPOSITORY)
            run(*editable, "--python", ENGINE_VENV / "bin" / "python", env=_environment())
        SOURCE_STAMP.write_text(source)


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"}
