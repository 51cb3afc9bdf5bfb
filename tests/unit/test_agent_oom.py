from __future__ import annotations

from pathlib import Path

import pytest

from specdec.engine.agent.oom import oom_kills

V2 = "low 0\nhigh 0\nmax 12\noom 3\noom_kill 2\noom_group_kill 0\n"
V1 = "oom_kill_disable 0\nunder_oom 0\noom_kill 5\n"


@pytest.mark.parametrize(
    ("name", "content", "kills"),
    [("memory.events", V2, 2), ("memory/memory.oom_control", V1, 5), ("memory.events", "max 1\n", 0)],
)
def test_the_kernels_count_is_read_from_either_cgroup(tmp_path: Path, name, content, kills):
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(content)
    assert oom_kills(tmp_path) == kills


def test_without_a_cgroup_nothing_was_killed(tmp_path: Path):
    assert oom_kills(tmp_path) == 0
