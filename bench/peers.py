"""A bad drafter on the real cluster with the real engine: our operator beside Argo Rollouts with Prometheus.

Two engines serve a good drafter under steady load, and one that is never right ("dead") or right for 4 of 10 tokens ("q40")
is rolled out. The same node, target, drafters, floor and client; stock SGLang under Argo Rollouts, since its rollouts are restarts.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

from tests.support import install
from tests.support.kubectl import apply, delete_namespace
from tests.support.servers import apply_server, claim, wait_current

from bench.argo import controllers
from bench.argo.rollout import FAST, NAME, SETTINGS, STANDARD, analysis, services
from bench.argo.runs import Outcome, by_argo, by_us, ours
from bench.results import Row, write

NAMESPACE = "specdec-peers"
DRAFTERS = ("dead", "q40")
UNIT = {
    "ready": ("apply to candidate serving", "s"),
    "decided": ("candidate serving to decided", "s"),
    "safe": ("decided to its last request", "s"),
    "touched": ("users' requests it served", ""),
    "longest": ("longest of them", "s"),
    "failed": ("failed requests", ""),
    "extra": ("extra GPUs", ""),
    "memory": ("extra memory", "GB"),
    "least": ("fewest ready engines", ""),
    "restarts": ("restarts", ""),
}


def argo_runs() -> list[Outcome]:
    """Measure every setting with every drafter."""
    controllers.crds()
    found = []
    _fresh()
    with (
        tempfile.TemporaryDirectory(prefix="peers-") as folder,
        controllers.running(NAMESPACE, Path(folder)) as prometheus,
    ):
        analyses = [analysis(NAMESPACE, one, prometheus.address) for one in (FAST, STANDARD)]
        objects = [*services(NAMESPACE), *analyses]
        apply(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
        for setting in SETTINGS:
            for drafter in DRAFTERS:
                found.append(by_argo(NAMESPACE, setting, drafter))
                print(found[-1], flush=True)
    return found


def our_runs() -> list[Outcome]:
    """Measure our operator."""
    _fresh()
    apply_server(ours(NAMESPACE, "good", "good"))
    wait_current(NAMESPACE, NAME)
    found = []
    for drafter in DRAFTERS:
        found.append(by_us(NAMESPACE, drafter))
        print(found[-1], flush=True)
        apply_server(ours(NAMESPACE, "good", "good"))
        wait_current(NAMESPACE, NAME)
    return found


def _fresh() -> None:
    install.namespace(NAMESPACE)
    claim(NAMESPACE)


def rows(found: list[Outcome]) -> list[Row]:
    """Put the runs into rows; ours are compared with each setting of Argo Rollouts."""
    table = []
    for one in found:
        for name, (what, unit) in UNIT.items():
            table.append(Row(f"{one.drafter}: {one.who}: {what}", round(float(getattr(one, name)), 2), unit))
    for drafter in DRAFTERS:
        mine = next((one for one in found if (one.who, one.drafter) == ("ours", drafter)), None)
        for one in found:
            if mine is None or one.drafter != drafter or one is mine or "canary" not in one.who:
                continue
            bar = 10.0 if "std" in one.who else 5.0
            ratio = (one.decided + one.safe) / (mine.decided + mine.safe)
            table.append(
                Row(f"{drafter}: serving to safe, {one.who} / ours", round(ratio, 1), "x", bar, least=True)
            )
    return table


def main() -> None:
    """Measure ours and theirs."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    try:
        write("peers", rows([*our_runs(), *argo_runs()]))
    finally:
        delete_namespace(NAMESPACE)


if __name__ == "__main__":
    main()
