"""Golden files: input and output YAML side by side, refreshed by `pytest --update-golden`, reviewed by git diff."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

DATA = Path(__file__).parents[1] / "data"


def cases(room: str) -> list[str]:
    """Names of a room's cases: `data/ROOM/NAME.input.yaml`."""
    return sorted(path.name.removesuffix(".input.yaml") for path in (DATA / room).glob("*.input.yaml"))


def read(room: str, name: str) -> Any:
    """A case's input."""
    return yaml.safe_load((DATA / room / f"{name}.input.yaml").read_text())


def compare(room: str, name: str, output: list[Any], *, update: bool) -> None:
    """Compare a case's output with its golden file, or write that."""
    same(f"{room}/{name}.output.yaml", yaml.safe_dump_all(output, sort_keys=False, width=110), update=update)


def same(name: str, text: str, *, update: bool) -> None:
    """Compare a text with a file below tests/data, or write that."""
    path = DATA / name
    if update:
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert path.exists(), f"{path} is missing: run pytest --update-golden"
    assert text == path.read_text(), f"{path} differs: run pytest --update-golden and review git diff"


Compare = Callable[[str, str, list[Any]], None]
Recorded = Callable[[str, str], None]


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Compare:
    """Compare with golden files, or refresh them under `--update-golden`."""
    update = bool(request.config.getoption("--update-golden"))
    return lambda room, name, output: compare(room, name, output, update=update)


@pytest.fixture
def recorded(request: pytest.FixtureRequest) -> Recorded:
    """Compare a text with a file below tests/data, or refresh it under `--update-golden`."""
    update = bool(request.config.getoption("--update-golden"))
    return lambda name, text: same(name, text, update=update)
