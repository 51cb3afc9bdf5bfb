from __future__ import annotations

import json

import pytest
from tests.support.paths import ROOT

from specdec.acceptance.overhead import MEASURED, Off, off_factor

MODES = {"off": Off.PLAIN, "warm": Off.VERIFY}


def test_the_table_is_what_the_gpu_lane_measured_last():
    rows = json.loads((ROOT / "tests" / "gpu" / "results.json").read_text())["wide"]["rows"]
    ratios = {
        (row["mode"], row["batch"]): row["ratio"]
        for row in rows
        if row["what"] == "overhead" and row["mode"] in MODES
    }
    assert ratios == {
        (mode, batch): ratio for mode, off in MODES.items() for batch, ratio in MEASURED["cuda", off].items()
    }


@pytest.mark.parametrize(
    ("batch", "factor"), [(0.2, 0.772), (1, 0.772), (7.9, 0.772), (8, 0.628), (500, 0.415)]
)
def test_a_batch_takes_the_factor_of_the_next_smaller_one(batch: float, factor: float):
    assert off_factor("cuda", Off.VERIFY, batch) == factor


def test_nobody_knows_a_platform_that_was_not_measured():
    assert off_factor("rocm", Off.PLAIN, 1) is None
