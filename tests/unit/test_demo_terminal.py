"""The demo's picture of a terminal: a real one, whose drawing is kept whole."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.demo.terminal import COLUMNS, picture, shown


def python(script: str, seconds: float = 30) -> str:
    return shown([sys.executable, "-c", script], os.environ, seconds)


def test_a_command_finds_a_terminal_as_wide_as_the_picture():
    script = "import os, sys; print(sys.stdout.isatty(), os.get_terminal_size().columns)"
    assert python(script) == f"True {COLUMNS}\n"


def test_a_command_that_fails_says_what_it_drew():
    with pytest.raises(subprocess.CalledProcessError) as failed:
        python("raise SystemExit('no such server')")
    assert failed.value.output == "no such server\n"


def test_a_command_that_hangs_is_ended():
    with pytest.raises(subprocess.CalledProcessError):
        python("import signal; signal.pause()", 0.5)


def test_the_picture_holds_all_in_its_colours_and_fetches_no_font(tmp_path: Path):
    picture("kubectl x", "\x1b[31mred\x1b[0m" + "a" * COLUMNS, tmp_path / "x.svg")
    svg = (tmp_path / "x.svg").read_text()
    (red,) = re.findall(r'class="(\S+)"[^>]*>red<', svg)
    assert f".{red} {{ fill: #f4005f }}" in svg
    assert [len(row) for row in re.findall(">(a+)<", svg)] == [COLUMNS - 3, 3]
    assert "@font-face" not in svg
