"""Every broken drafter, named in a Swap while users are served: refused by name, and the old one serves bit for bit."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.support.agentpod import AgentPod
from tests.support.engine import EngineSlot
from tests.support.enginepod import engine_pod, swap, traffic, users
from tests.support.models import drafter, expected_accept_length, make
from tests.support.models.broken import BUILDERS, BY_ENGINE, BY_HEADERS, FILE, one_token_map

from specdec.engine.protocol import CandidateState, Promote, Rollback, Status

pytestmark = [pytest.mark.engine, pytest.mark.timeout(240)]

REFUSALS = BY_HEADERS | BY_ENGINE


@dataclass(frozen=True)
class Serving:
    """A pod under load, and what must not change."""

    pod: AgentPod
    boot: str
    answer: bytes
    codes: list[int]

    def check(self, status: Status | None = None) -> None:
        """The engine is the one that was started; the old drafter drafts as exactly as before."""
        status = status or self.pod.status()
        calls, correct = traffic(status, "r-good")
        assert (status.boot, status.revision, status.steps) == (self.boot, "r-good", 3)
        assert correct == 3 * calls > 0
        assert _answer(self.pod) == self.answer
        assert set(self.codes) == {200}


def _answer(pod: AgentPod) -> bytes:
    code, body = pod.chat("the same words", tokens=40)
    assert code == 200
    return body.split(b'"content":"')[1].split(b'","')[0]


@pytest.fixture(scope="module")
def serving(slot: EngineSlot) -> Iterator[Serving]:
    slot.clear()
    with tempfile.TemporaryDirectory(prefix="pod-") as folder:
        models = Path(folder) / "models"
        make(models, ("kimi", "good", "q70", "renamed"))
        pod = engine_pod(Path(folder), models)
        pod.write_plan("good")
        pod.start()
        try:
            boot = pod.wait_serving().boot
            with users(pod, 2) as codes:
                pod.wait(lambda status: traffic(status, "r-good")[0] > 0, 30, "traffic")
                yield Serving(pod, boot, _answer(pod), codes)
        finally:
            pod.kill_container()


def test_every_way_to_break_a_drafter_is_in_the_table():
    assert REFUSALS.keys() == BUILDERS.keys()
    assert len(REFUSALS) >= 50


@pytest.mark.parametrize("fault", REFUSALS)
def test_a_broken_drafter_is_refused_by_name_under_load(serving: Serving, fault: str):
    BUILDERS[fault](serving.pod.models / fault)
    candidate = swap(serving.pod, fault)
    reason, named = REFUSALS[fault]
    assert (candidate.state, candidate.reason) == (CandidateState.REFUSED, reason), candidate.message
    assert named in candidate.message
    serving.check()


@pytest.mark.parametrize(
    ("name", "reason", "named"),
    [
        ("renamed", "ParametersNotFed", "weight"),
        ("kimi", "RemoteCode", "auto_map"),
        ("nowhere", "FileMissing", "nowhere"),
        ("../elsewhere", "PathOutsideModels", "elsewhere"),
    ],
)
def test_what_is_no_drafter_of_this_target_is_refused_by_name(serving: Serving, name, reason, named):
    candidate = swap(serving.pod, name)
    assert (candidate.state, candidate.reason) == (CandidateState.REFUSED, reason), candidate.message
    assert named in candidate.message
    serving.check()


def _rewritten(folder: Path) -> None:
    """Another drafter's weights, written over the file."""
    (folder / FILE).write_bytes((folder.with_name("q70") / FILE).read_bytes())


def _emptied(folder: Path) -> None:
    os.truncate(folder / FILE, 0)


@contextmanager
def _when_linked(pod: AgentPod, act: Callable[[Path], None], folder: Path) -> Iterator[None]:
    """Do something to a drafter's folder as soon as its overlay is there: its checks are over, its reading begins."""
    overlays = pod.folder / "state" / "overlays"
    before = set(overlays.iterdir())

    def watch() -> None:
        until = time.monotonic() + 30
        while time.monotonic() < until:
            for new in set(overlays.iterdir()) - before:
                if (new / "config.json").exists():
                    act(folder)
                    return

    thread = threading.Thread(target=watch)
    thread.start()
    yield
    thread.join()


@pytest.mark.parametrize(
    "act", [shutil.rmtree, _rewritten, _emptied], ids=["vanishes", "rewritten", "emptied"]
)
def test_a_drafter_that_changes_while_it_is_staged_is_refused(serving: Serving, act, request):
    name = f"changing-{request.node.callspec.id}"
    folder = drafter(serving.pod.models / name)
    with _when_linked(serving.pod, act, folder):
        candidate = swap(serving.pod, name)
    # Whoever reads next notices: the plugin, the digest, or the comparison of before and after.
    assert candidate.state is CandidateState.REFUSED
    assert candidate.reason in {"FileMissing", "FileTruncated", "HeaderMalformed", "ChangedWhileStaged"}
    assert str(folder) in candidate.message or FILE in candidate.message
    serving.check()


def test_a_map_to_a_single_token_is_found_by_the_probe(serving: Serving):
    one_token_map(serving.pod.models / "one-token")
    candidate = swap(serving.pod, "one-token")
    assert (candidate.state, candidate.reason) == (CandidateState.SWAPPED_BACK, "ProbeFailed: DeadDrafter")
    status = serving.pod.status()
    assert (status.boot, status.revision, status.steps) == (serving.boot, "r-good", 3)
    assert _answer(serving.pod) == serving.answer


def test_after_all_of_them_a_good_drafter_reaches_its_acceptance(serving: Serving):
    pod = serving.pod
    assert swap(pod, "q70").state is CandidateState.SERVING
    status = pod.wait(lambda status: traffic(status, "r-q70")[0] > 300, 60, "traffic on q70")
    calls, correct = traffic(status, "r-q70")
    assert 1 + correct / calls == pytest.approx(expected_accept_length(0.7), abs=0.3)
    assert pod.command(Rollback(revision="r-q70", reason="Test"))[1].accepted
    status = pod.wait(lambda status: status.revision == "r-good", 20, "back")
    assert pod.command(Promote(revision="r-good"))[1].accepted
    assert _answer(pod) == serving.answer
    assert set(serving.codes) == {200}
    assert "agent ERROR" not in pod.log
