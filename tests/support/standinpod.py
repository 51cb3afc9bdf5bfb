"""An engine pod whose SGLang is a stand-in that fails on purpose."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from tests.support.agentpod import AgentPod
from tests.support.models import make
from tests.support.ports import free_ports

from specdec.engine.protocol import CandidateState, Status

STAND_IN = Path(__file__).with_name("stand_in")
QUALITIES = {"kimi": 0, "good": 1.0, "q70": 0.7, "q40": -1, "dead": 0.0, "renamed": 1.0, "embedding": 2.0}
"""By name of the tiny model; the stand-in refuses to load one below 0 and dies of one above 1."""


def stand_in_models(folder: Path) -> Path:
    """Make the tiny models as the stand-in reads them, below a folder; pods may share it as long as no test changes a file."""
    make(folder, QUALITIES)
    for name, quality in QUALITIES.items():
        config = json.loads((folder / name / "config.json").read_text())
        (folder / name / "config.json").write_text(json.dumps(config | {"quality": quality}))
    return folder


def new_pod(folder: Path, models: Path) -> AgentPod:
    """Make a pod with the stand-in and these models; it does not run yet."""
    profile = folder / "engine.json"
    profile.write_text('{"version": "0.5.23", "platform": "cuda", "args": [], "env": {}}')
    environment = {
        "PYTHONPATH": os.pathsep.join([str(STAND_IN), os.environ.get("PYTHONPATH", "")]),
        "STAND_IN_FAULTS": str(folder / "faults.json"),
    }
    return AgentPod(folder, models, Path(sys.executable), profile, *free_ports(2), environment=environment)


def settled(pod: AgentPod, name: str) -> Status:
    """Wait until the candidate of this name serves or has ended."""
    ends = set(CandidateState) - {CandidateState.STAGING, CandidateState.SWAPPING, CandidateState.PROBING}
    return pod.wait(
        lambda status: bool(
            status.candidate and status.candidate.revision == f"r-{name}" and status.candidate.state in ends
        ),
        20,
        f"candidate {name} settled",
    )
