"""Two test processes never find the same port free."""

from __future__ import annotations

import socket
import subprocess
import sys

from tests.support.paths import ROOT
from tests.support.ports import RANGE, free_ports

FIND_IT = """
from tests.support import ports

ports.RANGE = range({port}, {port} + 1)
try:
    print(*ports.free_ports(1))
except RuntimeError as none:
    print(none)
"""


def others(port: int) -> str:
    """What another process says of a port that it looks for."""
    found = subprocess.run(
        [sys.executable, "-c", FIND_IT.format(port=port)],
        cwd=ROOT, capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    return found.stdout


def test_a_port_is_found_once_and_by_one_process():
    ports = free_ports(3)
    assert len(set(ports)) == 3
    assert set(ports) <= set(RANGE)
    assert not set(ports) & set(free_ports(50))
    for port in ports:
        assert others(port).startswith("0 ports")


def test_a_port_that_somebody_listens_on_is_not_found():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert others(port).startswith("0 ports")
