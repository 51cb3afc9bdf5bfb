"""Which Docker daemon the cluster's tooling uses: chosen once, by a live question, and kept until the cluster is gone."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cluster.tooling import daemon
from tests.support.paths import ROOT


class Docker:
    """A docker command that answers as it is told, and the daemon of ours that is asked to start."""

    def __init__(self, folder: Path) -> None:
        self.program, self.log, self.starts = folder / "docker", folder / "log", 0
        self.log.touch()

    def answers(self, code: int) -> None:
        self.program.write_text(f'#!/bin/sh\necho "$*" >> {self.log}\nexit {code}\n')
        self.program.chmod(0o755)

    @property
    def asked(self) -> list[str]:
        return self.log.read_text().splitlines()

    def start(self) -> None:
        self.starts += 1


@pytest.fixture
def docker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Docker:
    made = Docker(tmp_path)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    monkeypatch.setattr(daemon, "CHOICE", tmp_path / "docker-choice")
    monkeypatch.setattr(daemon, "SOCKET", f"unix://{tmp_path}/docker.sock")
    monkeypatch.setattr(daemon, "start", made.start)
    return made


@pytest.mark.parametrize(("code", "later", "pulls"), [(0, 1, True), (1, 0, False)])
def test_a_registry_that_comes_or_goes_later_changes_no_choice(docker, code, later, pulls):
    docker.answers(code)
    assert daemon.choose() is pulls
    asked = docker.asked
    docker.answers(later)
    assert daemon.choose() is pulls
    assert daemon.is_chosen() is not pulls
    assert docker.asked == asked
    assert docker.starts == (0 if pulls else 2)


def test_after_the_cluster_is_gone_it_is_chosen_again(docker):
    docker.answers(1)
    assert not daemon.choose()
    daemon.forget()
    daemon.forget()
    docker.answers(0)
    assert daemon.choose()


def test_a_shell_that_points_at_our_daemon_chooses_it(docker, monkeypatch):
    docker.answers(0)
    monkeypatch.setenv("DOCKER_HOST", daemon.SOCKET)
    assert not daemon.choose()
    assert docker.asked == []


def test_before_a_choice_ours_is_used_where_it_has_a_socket(docker, tmp_path):
    assert not daemon.is_chosen()
    (tmp_path / "docker.sock").touch()
    assert daemon.is_chosen()
    assert daemon.choice() is None


def test_a_purge_leaves_neither_images_nor_cache_nor_lock(tmp_path):
    programs, log = tmp_path / "programs", tmp_path / "log"
    programs.mkdir()
    for name, says in {"docker": "image-1", "kind": ""}.items():
        (programs / name).write_text(f'#!/bin/sh\necho "{name} $*" >> {log}\necho {says}\n')
        (programs / name).chmod(0o755)
    cache = tmp_path / "cache" / "specdec"
    cache.mkdir(parents=True)
    environment = {**os.environ, "PATH": f"{programs}:/usr/bin:/bin", "SPECDEC_CACHE": str(cache)}
    command = [sys.executable, "-m", "tests.cluster", "down", "--purge"]
    subprocess.run(command, cwd=ROOT, env=environment, check=True, timeout=60, stdout=subprocess.DEVNULL)
    assert list(cache.parent.iterdir()) == []
    kind, listed, removed = log.read_text().splitlines()
    assert kind.startswith("kind delete cluster --name specdec")
    assert "label=dev.specdec.inputs" in listed
    assert removed == "docker image rm --force image-1"
