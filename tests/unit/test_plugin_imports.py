"""What SGLang's processes have to import before they go on."""

from __future__ import annotations

import subprocess
import sys

HEAVY = ("specdec.api", "specdec.preflight", "specdec.engine.protocol")
"""Ten times as much as the rest, once in the launcher and once in the scheduler, while a start waits."""


def test_the_plugin_brings_neither_the_api_nor_the_checks_into_sglangs_processes():
    script = "import sys, specdec.engine.plugin.registration; print(*sys.modules)"
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert "specdec.engine.message" in found
    assert [name for name in found.split() if name.startswith(HEAVY)] == []
