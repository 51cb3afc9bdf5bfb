"""A picture of a real terminal: a command runs in one, and what it drew there becomes an SVG."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import re
import struct
import subprocess
import termios
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

ROWS, COLUMNS = 60, 132
_FONTS = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)
"""The picture's fonts would be fetched from elsewhere; a reader's own monospaced font does."""


def shown(command: Sequence[str], environment: Mapping[str, str], seconds: float = 30) -> str:
    """Run a command on a terminal of its own and return what it drew, colours included.

    Raises
    ------
    subprocess.CalledProcessError
        It ended with an error, or was killed when its time was up; `output` is what it drew.
    """
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    with subprocess.Popen(
        command,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**environment, "TERM": "xterm-256color"},
        start_new_session=True,
    ) as process:
        os.close(theirs)
        late = threading.Timer(seconds, process.kill)
        late.start()
        drawn = b"".join(_read(ours))
        os.close(ours)
        process.wait()
        late.cancel()
    text = drawn.decode().replace("\r\n", "\n")
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, list(command), text)
    return text


def _read(terminal: int) -> Iterator[bytes]:
    """Read until the other side is closed, which a terminal tells by an error."""
    while True:
        try:
            piece = os.read(terminal, 1 << 16)
        except OSError:
            return
        if not piece:
            return
        yield piece


def picture(typed: str, drawn: str, path: Path) -> None:
    """Write the SVG of a prompt with what was typed, and of what the command drew below it."""
    console = Console(
        record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True, legacy_windows=False
    )
    for line in Text.from_ansi(f"$ {typed}\n{drawn.rstrip()}").split():
        for row in line.divide(range(COLUMNS, len(line), COLUMNS)):  # a terminal breaks where it is full
            console.print(row, no_wrap=True, crop=True)
    svg = console.export_svg(title=typed, theme=MONOKAI, unique_id="terminal")
    path.write_text(_FONTS.sub("", svg))
