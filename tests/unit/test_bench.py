"""The benchmarks' own arithmetic."""

from __future__ import annotations

import sys

import pytest
from bench import built
from bench.enginehalf.gauge import specdec_gauge
from bench.enginehalf.speeds import median_interval
from bench.results import Row, percentile, ranked
from bench.usage import used
from hypothesis import given
from hypothesis import strategies as st

from specdec.engine.plugin.hooks import Hook


@pytest.mark.parametrize(
    ("row", "met"),
    [
        (Row("a", 1.0, "s"), None),
        (Row("a", 1.0, "s", 1.0), True),
        (Row("a", 1.1, "s", 1.0), False),
        (Row("a", 0.9, "x", 0.95, least=True), False),
        (Row("a", 0.95, "x", 0.95, least=True), True),
    ],
)
def test_a_bar_is_the_most_unless_it_is_the_least(row: Row, met: bool | None):
    assert row.met is met


@pytest.mark.parametrize(
    ("count", "percent", "place"), [(300, 99, 297), (100, 99, 99), (20, 99, 20), (300, 50, 150), (1, 50, 1)]
)
def test_a_percentile_is_a_sample_that_so_many_do_not_exceed(count: int, percent: int, place: int):
    samples = [float(number) for number in range(count, 0, -1)]
    assert percentile(samples, percent) == place
    row = ranked("a change", samples, percent, "ms")
    assert (row.row, row.value, row.n) == (f"a change, p{percent}", place, count)


def test_a_program_is_built_again_when_its_module_names_another_version(tmp_path, monkeypatch):
    calls: list[str] = []

    def build(*command: str, **_: object) -> str:
        calls.append(command[0])
        (tmp_path / "kwok").touch()
        return ""

    monkeypatch.setattr(built, "BIN", tmp_path)
    monkeypatch.setattr(built.gotools, "STAMPS", tmp_path / ".made-from")
    monkeypatch.setattr(built, "run", build)
    (tmp_path / "go.sum").touch()
    for version, times in (("v1", 1), ("v1", 1), ("v2", 2)):
        (tmp_path / "go.mod").write_text(version)
        assert built.built(tmp_path, "kwok") == str(tmp_path / "kwok")
        assert calls == ["go"] * times


def test_a_commands_peak_of_memory_is_its_own_and_not_the_benchmarks():
    ballast = bytearray(200 << 20)
    usage = used(sys.executable, "-c", "raise SystemExit(3)")
    assert usage.code == 3
    assert usage.peak_mb * (1 << 20) < len(ballast) / 2


@pytest.mark.parametrize(("count", "places"), [(6, (1, 6)), (20, (6, 15)), (31, (10, 22)), (40, (14, 27))])
def test_the_medians_interval_lies_where_the_tables_of_the_sign_test_say(count: int, places: tuple[int, int]):
    assert median_interval([float(place) for place in range(count, 0, -1)]) == places


@given(st.lists(st.floats(0.1, 10), min_size=6, max_size=60))
def test_the_medians_interval_holds_the_median_of_what_was_seen(values: list[float]):
    low, high = median_interval(values)
    middle = sorted(values)[(len(values) - 1) // 2]
    assert low <= middle <= high


def test_too_few_values_hold_no_interval():
    with pytest.raises(ValueError, match="expected 6 or more"):
        median_interval([1.0] * 5)


def test_the_gauge_counts_our_code_and_not_what_it_is_wrapped_around(monkeypatch: pytest.MonkeyPatch):
    clock = 0

    def spend(nanoseconds: int) -> None:
        nonlocal clock
        clock += nanoseconds

    monkeypatch.setattr(specdec_gauge.time, "thread_time_ns", lambda: clock)
    gauge = specdec_gauge.Gauge()

    def around(original, nanoseconds: int):
        spend(nanoseconds)
        original()
        spend(nanoseconds)

    inner = gauge.weigh(Hook("a.b", around, ())).around
    outer = gauge.weigh(Hook("a.c", around, ())).around
    outer(lambda: (spend(1000), inner(lambda: spend(500), 3)), 20)
    assert gauge.nanoseconds == 2 * 20 + 2 * 3
    assert gauge.calls["around"] == 2
