"""Builds the images that run in the cluster, each only when something that goes into it changed."""

import os
from collections.abc import Sequence
from pathlib import Path

from . import fingerprint, rootfs
from .places import IMAGE_FILES, PREVIOUS, REPOSITORY
from .steps import run, step

BUILT_HERE = ("engine-cpu", "operator")
LABEL = "dev.specdec.inputs"
PACKAGE = ("LICENSE", "README.md", "operator", "pyproject.toml")
BUILD_DEADLINE = 1800


def tag(name: str) -> str:
    """Name the image that is built from a folder of images/."""
    return f"localhost/specdec-{name}:dev"


def build(name: str, *, stock: bool) -> str:
    """Build one image unless its label tells of the same inputs, and return its tag."""
    base = None if stock else rootfs.base_image()
    inputs = fingerprint.of_files(_inputs(name), _identity(base) if base else "stock")
    options = ("--build-arg", f"BASE={base}", "--network", "host") if base else ()
    return _built(tag(name), inputs, IMAGE_FILES / name, REPOSITORY, options, stock=stock)


def build_previous(name: str, *, stock: bool) -> str:
    """Build the image as it was in the release before, on top of today's."""
    today, image = tag(name), f"localhost/specdec-{name}:previous"
    inputs = fingerprint.of_files([PREVIOUS], _identity(today))
    return _built(image, inputs, PREVIOUS, PREVIOUS, ("--build-arg", f"TODAY={today}"), stock=stock)


def remove() -> None:
    """Remove every image that was built here, of whichever checkout."""
    found = run("docker", "image", "ls", "--quiet", "--filter", f"label={LABEL}").split()
    if found:
        with step("remove the images built here"):
            run("docker", "image", "rm", "--force", *sorted(set(found)))


def _built(
    image: str, inputs: str, folder: Path, context: Path, options: Sequence[str], *, stock: bool
) -> str:
    label = f"{LABEL}={inputs}"
    if run("docker", "image", "ls", "--quiet", "--filter", f"label={label}", image).strip():
        return image
    # Debian's daemon and a newer client share the older builder only; it has what the files here need.
    env = dict(os.environ) if stock else {**os.environ, "DOCKER_BUILDKIT": "0"}
    given = ("--tag", image, "--label", label, "--file", folder / "Containerfile", *options)
    with step(f"build {image}"):
        # What earlier builds left is a cache for a day, and then only takes space.
        run("docker", "image", "prune", "--force", "--filter", "until=24h")
        run("docker", "build", *given, context, env=env, deadline=BUILD_DEADLINE)
    return image


def _inputs(name: str) -> list[Path]:
    paths = [IMAGE_FILES / name, *(REPOSITORY / part for part in PACKAGE)]
    return [*paths, REPOSITORY / "uv.lock"] if name == "operator" else paths


def _identity(base: str) -> str:
    return run("docker", "image", "inspect", "--format", "{{.Id}}", base).strip()
