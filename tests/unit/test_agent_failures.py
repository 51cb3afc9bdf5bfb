from __future__ import annotations

import pytest

from specdec.engine.agent.failures import Blame, Failure, diagnose
from specdec.engine.agent.ladder import RUNGS, Attempt, after_failure
from specdec.engine.loopback import StartReport


@pytest.mark.parametrize(
    ("line", "code", "reason", "blame"),
    [
        (
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB",
            1,
            "OutOfMemory",
            Blame.SURROUNDINGS,
        ),
        (
            "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.",
            1,
            "OutOfMemory",
            Blame.SURROUNDINGS,
        ),
        (
            "Exception: Capture cuda graph failed: CUDA error: out of memory",
            1,
            "GraphCaptureFailed",
            Blame.GRAPHS,
        ),
        (
            "ERROR: [Errno 98] error while attempting to bind on address ('0.0.0.0', 30000): address already in use",
            1,
            "PortInUse",
            Blame.SURROUNDINGS,
        ),
        (
            "[rank0]:[E] [PG ID 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1)",
            -6,
            "NcclTimeout",
            Blame.SURROUNDINGS,
        ),
        (
            "misc/shmutils.cc:72 NCCL WARN Error while creating shared memory segment /dev/shm/nccl-Xy (size 9637888)",
            1,
            "SharedMemory",
            Blame.SURROUNDINGS,
        ),
        (
            "ValueError: EAGLE is not supported in decode attention backend torch_native",
            1,
            "AttentionBackendUnsupported",
            Blame.DRAFTER,
        ),
        (
            "ValueError: trtllm_mla backend can only be used with MLA models.",
            1,
            "AttentionBackendUnsupported",
            Blame.DRAFTER,
        ),
        (
            "RuntimeError: captured 2 of 3 aux hidden states",
            -9,
            "CaptureLayersMismatch",
            Blame.DRAFTER,
        ),
        (
            "launch_server.py: error: unrecognized arguments: --cuda-graph-max-bs 8",
            2,
            "ArgumentRefused",
            Blame.SURROUNDINGS,
        ),
        (
            "PermissionError: [Errno 13] Permission denied: '/models/m/t/model.safetensors'",
            1,
            "NotReadable",
            Blame.UNKNOWN,
        ),
        (
            "FileNotFoundError: [Errno 2] No such file or directory: '/models/m/t'",
            1,
            "FileMissing",
            Blame.UNKNOWN,
        ),
        (
            "[2026-11-29 18:09:33] Scheduler watchdog timeout (self.watchdog_timeout=300, self.soft=False)",
            -9,
            "WatchdogTimeout",
            Blame.UNKNOWN,
        ),
        ("nothing to see", -9, "Killed", Blame.SURROUNDINGS),
        (
            "IndexError: index 300 is out of bounds for dimension 0 with size 256",
            1,
            "EngineExited",
            Blame.UNKNOWN,
        ),
        ("", -11, "EngineExited", Blame.UNKNOWN),
    ],
)
def test_names_why_a_process_ended(line, code, reason, blame):
    found = diagnose(("[2026-11-29] server_args=...", line, "Killed process tree"), code, None)
    assert (found.reason, found.blame) == (reason, blame)
    assert ": " in found.message or ";" in found.message


def test_the_plugins_refusal_comes_first():
    report = StartReport(reason="ParametersNotFed", message="lm_head.weight gets no tensor")
    found = diagnose(("torch.OutOfMemoryError: CUDA out of memory",), 1, report)
    assert found == Failure("ParametersNotFed", "lm_head.weight gets no tensor", Blame.DRAFTER)


def test_a_report_without_a_reason_says_nothing():
    assert diagnose((), 3, StartReport()).reason == "EngineExited"


DRAFTER = Failure("ParametersNotFed", "", Blame.DRAFTER)
GRAPHS = Failure("GraphCaptureFailed", "", Blame.GRAPHS)
UNKNOWN = Failure("EngineExited", "", Blame.UNKNOWN)
AROUND = Failure("PortInUse", "", Blame.SURROUNDINGS)
ODD_ARGUMENT = Failure("ArgumentRefused", "", Blame.SURROUNDINGS)


@pytest.mark.parametrize(
    ("failures", "platform", "rung", "with_drafter"),
    [
        ([AROUND] * 5, "cuda", 0, True),
        ([DRAFTER], "cuda", 0, False),
        ([DRAFTER, AROUND, UNKNOWN, UNKNOWN], "cuda", 0, False),
        ([UNKNOWN], "cuda", 0, True),
        ([UNKNOWN, UNKNOWN], "cuda", 0, False),
        ([UNKNOWN, UNKNOWN, UNKNOWN], "cuda", 0, True),
        ([GRAPHS], "cuda", 1, True),
        ([GRAPHS, ODD_ARGUMENT], "cuda", 2, True),
        ([GRAPHS] * 9, "cuda", len(RUNGS) - 1, True),
        ([GRAPHS], "cpu", 0, True),
        ([ODD_ARGUMENT], "cuda", 0, True),
    ],
)
def test_what_the_next_start_tries(failures, platform, rung, with_drafter):
    attempt = Attempt()
    for failure in failures:
        attempt = after_failure(attempt, failure, platform=platform)
    assert (attempt.rung, attempt.with_drafter, attempt.failures) == (rung, with_drafter, len(failures))


def test_pauses_grow_to_a_minute():
    assert [Attempt(failures=count).pause_seconds for count in (0, 1, 2, 3, 6, 7, 500)] == [
        0,
        1,
        2,
        4,
        32,
        60,
        60,
    ]
