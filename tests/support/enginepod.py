"""A pod whose agent runs the real engine: made, loaded with users, and swapped."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.agentpod import AgentPod
from tests.support.engine import PROFILE, PYTHON
from tests.support.ports import free_ports

from specdec.engine.protocol import Candidate, CandidateState, Source, Status, Swap

ARGUMENTS = (
    "--trust-remote-code",
    *("--context-length", "512", "--max-total-tokens", "4096", "--max-running-requests", "8"),
    *("--mem-fraction-static", "0.5", "--decode-log-interval", "1000"),
)
UNDER_WAY = frozenset({CandidateState.STAGING, CandidateState.SWAPPING, CandidateState.PROBING})


def engine_pod(folder: Path, models: Path) -> AgentPod:
    """Make a pod below a folder; it does not run yet."""
    pod = AgentPod(folder, models, PYTHON, PROFILE, *free_ports(2), arguments=ARGUMENTS)
    # Eight characters of boot id and a socket's name follow: Unix sockets have short paths.
    assert len(str(folder)) < 60
    return pod


def swap(pod: AgentPod, name: str, within: int = 60) -> Candidate:
    """Swap a drafter in and wait until it serves, was refused or was left again."""
    answer = pod.command(Swap(drafter=pod.drafter(name), confirm_within_seconds=within))[1]
    assert answer.accepted, answer
    status = pod.wait(
        lambda status: bool(
            status.candidate
            and status.candidate.revision == f"r-{name}"
            and status.candidate.state not in UNDER_WAY
        ),
        40,
        f"{name} settled",
    )
    assert status.candidate is not None
    return status.candidate


@contextmanager
def users(pod: AgentPod, count: int = 3, letters: str = "", tokens: int = 64) -> Iterator[list[int]]:
    """Users who send one request after the other; yields the codes of their answers.

    The tiny target answers by a text's last letter: with `letters`, theirs end with one of these.
    """
    codes: list[int] = []
    stop = threading.Event()

    def ask(number: int) -> None:
        while not stop.is_set():
            asked = len(codes)
            last = letters[asked % len(letters)] if letters else ""
            codes.append(pod.chat(f"user {number} says {asked}{last}", tokens=tokens)[0])

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    try:
        yield codes
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def traffic(status: Status, revision: str) -> tuple[int, int]:
    """Verify calls of users' requests under a revision, and the correct drafts in them."""
    rows = [
        row
        for row in status.counters
        if row.revision == revision and row.source is Source.TRAFFIC and row.steps
    ]
    return sum(row.calls for row in rows), sum(sum(row.correct) for row in rows)
