"""Ports of loopback for programs that bind them later."""

from __future__ import annotations

import random
import socket

RANGE = range(20000, 30000)
"""Below the ports that Linux gives to connections (ip_local_port_range: from 32768 on)."""
_claims: list[socket.socket] = []


def free_ports(count: int) -> list[int]:
    """Find so many ports that nobody listens on, and keep every other test process from finding them as long as this one runs.

    An engine binds its port seconds after it was chosen: a port that is only free now may be another's by then.

    Raises
    ------
    RuntimeError
        There are not so many.
    """
    found: list[int] = []
    for port in random.sample(RANGE, len(RANGE)):
        if _is_free(port) and _claim(port):
            found.append(port)
        if len(found) == count:
            return found
    raise RuntimeError(f"{len(found)} ports of {RANGE[0]} to {RANGE[-1]} are free, expected {count}")


def _is_free(port: int) -> bool:
    with socket.socket() as listener:
        try:
            listener.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _claim(port: int) -> bool:
    """Take the port's name among the kernel's abstract sockets, which are gone with their process however it ends."""
    claim = socket.socket(socket.AF_UNIX)
    try:
        claim.bind(f"\0specdec-test-port-{port}")
    except OSError:
        claim.close()
        return False
    _claims.append(claim)
    return True
