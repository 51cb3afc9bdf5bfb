"""The API server taken away from one pod, by the node's packet filter: everybody else goes on with it.

Who is cut off sees, in real time, what a client sees of an API server that is gone (refused), that stands still
(silent), or that has forgotten the connections of before (deaf).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from tests.support.nodes import on_node

API_SERVER_PORT = 6443
"""Where it listens on the node."""
TO_IT = f"tcp dport {{ 443, {API_SERVER_PORT} }}"
"""Seen before the Service's address is translated: only there does a reset find its way back."""
FROM_IT = f"tcp sport {API_SERVER_PORT}"
TABLE = "specdec-outage"


@contextlib.contextmanager
def refused(address: str) -> Iterator[None]:
    """Let every connection be reset that a pod has or opens."""
    with _filtered(f"ip saddr {address} {TO_IT} reject with tcp reset"):
        yield


@contextlib.contextmanager
def silent(address: str) -> Iterator[None]:
    """Let nothing arrive in either direction, on connections of before and on new ones."""
    with _filtered(f"ip saddr {address} {TO_IT} drop", f"ip daddr {address} {FROM_IT} drop"):
        yield


@contextlib.contextmanager
def deaf(address: str) -> Iterator[None]:
    """Let nothing arrive on the connections that a pod has now; new ones work."""
    ports = ", ".join(connections(address))
    if not ports:
        raise LookupError(f"{address} has no connection to the API server that could be deaf")
    there, back = f"tcp sport {{ {ports} }}", f"tcp dport {{ {ports} }}"
    with _filtered(f"ip saddr {address} {TO_IT} {there} drop", f"ip daddr {address} {FROM_IT} {back} drop"):
        yield


def connections(address: str) -> list[str]:
    """Ports of a pod's connections to the API server."""
    lines = on_node("ss", "-Htn", f"sport = :{API_SERVER_PORT}").splitlines()
    peers = [line.split()[4].removeprefix("[::ffff:").replace("]", "") for line in lines]
    return [port for host, _, port in (peer.rpartition(":") for peer in peers) if host == address]


@contextlib.contextmanager
def _filtered(arriving: str, leaving: str = "") -> Iterator[None]:
    rules = (("prerouting", "raw", arriving), ("output", "filter", leaving))
    chains = [
        f"chain {hook} {{ type filter hook {hook} priority {priority}; {rule}; }}"
        for hook, priority, rule in rules
        if rule
    ]
    on_node("nft", "\n".join((f"table ip {TABLE} {{", *chains, "}")))
    try:
        yield
    finally:
        on_node("nft", "delete", "table", "ip", TABLE)
