"""Takes back what a stopped Docker daemon leaves behind: its iptables rules and its bridge."""

import shlex
import subprocess

from .steps import run, succeeds

TABLES = ("filter", "nat")


def forget_docker(bridge_address: str) -> None:
    """Delete the rules and chains that name Docker or its subnet, and its default bridge; leave all others."""
    network = bridge_address.replace(".1/", ".0/")
    for table in TABLES:
        saved = run("iptables-save", "-t", table).splitlines()
        for rule in saved:
            if rule.startswith("-A") and any(mark in rule for mark in ("DOCKER", "docker0", network)):
                _iptables(table, "-D", *shlex.split(rule)[1:])
        for chain in [line[1:].split()[0] for line in saved if line.startswith(":DOCKER")]:
            _iptables(table, "-F", chain)
            _iptables(table, "-X", chain)
    if succeeds("ip", "link", "show", "docker0"):
        run("ip", "link", "delete", "docker0")


def _iptables(table: str, *arguments: str) -> None:
    # A rule may be gone with its chain already: what counts is that none is left.
    subprocess.run(("iptables", "-t", table, *arguments), capture_output=True, check=False)
