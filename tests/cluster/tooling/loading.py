"""Puts images onto the node: only those that it lacks, and from our daemon only the layers that it lacks."""

import json
import subprocess
import threading
from collections.abc import Callable
from typing import IO, Any

from . import daemon, layers
from .places import NODE
from .steps import StepFailedError, run, step, wait_for

IMPORT = ("docker", "exec", "--interactive", NODE, "ctr", "--namespace", "k8s.io", "images", "import", "-")

LOAD_DEADLINE = 900


def load(image: str) -> None:
    """Load one image unless the node has it."""
    wanted = _content(json.loads(run("docker", "image", "inspect", image))[0])
    if _on_node(image) == wanted:
        return
    with step(f"load {image}"):
        if daemon.is_chosen():
            present = run(
                "docker", "exec", NODE, "ctr", "--namespace", "k8s.io", "content", "ls", "--quiet"
            ).split()
            _import(lambda archive: layers.write_archive(image, set(present), archive))
        else:
            _import(lambda archive: _save(image, archive))
        # The kubelet's side hears of it a moment after the import.
        wait_for(f"the node to know the new {image}", lambda: _on_node(image) == wanted, deadline=30)


def _content(image: dict[str, Any]) -> tuple[str, list[str]]:
    """What tells two images apart whichever store they are in: an ID is of the config in one, of the manifest in another."""
    return image["Created"], image["RootFS"]["Layers"]


def _on_node(image: str) -> tuple[str, list[str]] | None:
    listed = json.loads(run("docker", "exec", NODE, "crictl", "images", "--output", "json"))["images"]
    if not any(image in found["repoTags"] for found in listed):
        return None
    spec = json.loads(run("docker", "exec", NODE, "crictl", "inspecti", image))["info"]["imageSpec"]
    return spec["created"], spec["rootfs"]["diff_ids"]


def _import(write: Callable[[IO[bytes]], None]) -> None:
    """Stream an archive into the node's containerd: a file of its size would lie on the disk for nothing."""
    with subprocess.Popen(
        IMPORT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as importer:
        assert importer.stdin
        assert importer.stdout
        late = threading.Timer(LOAD_DEADLINE, importer.kill)
        late.start()
        try:
            write(importer.stdin)
            importer.stdin.close()
        except BrokenPipeError:
            pass  # the importer ended, and says why
        said = importer.stdout.read().decode()
        late.cancel()
    if importer.returncode:
        raise StepFailedError(
            f"the node did not take the image within {LOAD_DEADLINE} s: {said.strip() or 'no word'}"
        )


def _save(image: str, archive: IO[bytes]) -> None:
    subprocess.run(("docker", "save", image), stdout=archive, check=True)
