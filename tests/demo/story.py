"""The demo's story: six drafters rolled onto one running engine under a steady load."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from tests.demo import terminal
from tests.demo.figures import (
    Chapter,
    Record,
    Result,
    from_candidate,
    judge,
    spec_writers,
    touched,
    unix,
    window,
)
from tests.demo.narrate import baseline, events, rows, say, watch
from tests.demo.traffic import Traffic
from tests.support import install
from tests.support.kubectl import (
    KUBECTL,
    as_person,
    condition,
    delete_namespace,
    get,
    items,
    kubectl,
    wait_condition,
    wait_for,
)

NAMESPACE = "specdec-demo"
SERVER = "kimi"
EXAMPLES = Path(__file__).parents[2] / "examples" / "demo"
CYCLE = 24
"""Requests per window: whole rounds of the client's 12 prompts, so that windows compare like with like."""


def with_baseline() -> dict[str, Any] | None:
    """Return the server once it shows what its engine's warm-up found."""
    server = get("sds", SERVER, NAMESPACE)
    return server if server.get("status", {}).get("warmup") else None


def engine_pods() -> list[dict[str, Any]]:
    """Fetch the engine's pods."""
    return items("pods", NAMESPACE, f"app.kubernetes.io/component=engine,specdec.dev/server={SERVER}")


def pod_uids() -> dict[str, str]:
    """Name and UID of every engine pod."""
    return {p["metadata"]["name"]: p["metadata"]["uid"] for p in engine_pods()}


class Story:
    """The running demo: one server, one client, chapters as they happen."""

    def __init__(self) -> None:
        self.result = Result()
        self.traffic: Traffic | None = None
        self.outputs: dict[str, list[str]] = {}
        """What kubectl printed, by the block of README that shows it."""
        self.screen = ("", "")
        """What was typed at a terminal, and what it showed then."""

    def run(self) -> tuple[Result, list[Record]]:
        """Tell the whole story; the result says which promises were kept."""
        clean_up()
        install.namespace(NAMESPACE)
        kubectl("apply", "-f", str(EXAMPLES / "models.yaml"))
        with rows(NAMESPACE, SERVER), events(NAMESPACE):
            self.first()
            self.traffic = Traffic(NAMESPACE, SERVER)
            try:
                self.chapters()
            finally:
                end = self.traffic.stop()
        result = self.result
        result.requests, result.failed_requests = end["requests"], end["failed"]
        result.promises = judge(result)
        return result, self.traffic.requests()

    def first(self) -> None:
        """Chapter 1: the first drafter, from nothing to Ready."""
        say("v1, a good drafter (every guess is right): kubectl apply -f examples/demo/v1.yaml")
        kubectl("apply", "-f", str(EXAMPLES / "v1.yaml"))
        wait_condition(SERVER, NAMESPACE, "Ready", "True", 300)
        self.result.pods_first = pod_uids()
        server = wait_for("the first baseline in the status", 60, with_baseline)
        for sentence in baseline(server["status"]):
            say(sentence)
        say("v1 is Ready. A client now asks 1.5 questions per second through the Service, to the end.")

    def chapters(self) -> None:
        """Chapters 2 to 9, under load."""
        assert self.traffic
        first = Chapter("v1", "good", "serves", applied=time.time(), outcome="Promoted")
        wait_condition(SERVER, NAMESPACE, "DrafterCurrent", "True", 120)
        first.done = time.time()
        first.after = window(self.traffic.wait_requests(CYCLE, first.done))
        self.result.chapters.append(first)
        self.roll("v2", "q70", "promoted in place: right in 7 of 10 guesses, above the floor")
        self.show("promoted", "wait", "--for=condition=DrafterCurrent", f"sds/{SERVER}")
        self.show("promoted", "get", "sds")
        self.roll("v3", "renamed", "blocked by its headers: SGLang would drop its tensors without a word")
        self.roll("v3 off", "renamed", "refused while loading: the same, with preflight.mode Off")
        self.roll("v4", "dead", "caught by the agent's own probe: loads whole, never right")
        with watch(NAMESPACE, SERVER) as watched:
            wait_for("the first line of kubectl specdec watch", 30, lambda: watched.lines)
            self.roll(
                "v5", "q40", "caught on live traffic: it passes the probe, but is below the user's floor"
            )
        shown = "\n".join(watched.lines)
        self.outputs["watch"] = [f"$ kubectl specdec watch {SERVER} -n {NAMESPACE}\n{shown}\n"]
        self.photograph("specdec", "status", SERVER, "-n", NAMESPACE)
        self.show("rolled-back", "get", "sds", "-o", "wide")
        self.show("describe", "describe", "sds", SERVER)
        self.show("explain", "explain", "sds.spec.rollout")
        self.roll("v4 again", "dead", "refused at once: it is in quarantine")
        self.roll(
            "v6", "layers-0", "mended and promoted: a sound drafter with the names that most trainers give"
        )
        self.result.pods_last = pod_uids()
        self.result.restarts = sum(
            s["restartCount"] for p in engine_pods() for s in p["status"].get("containerStatuses", [])
        )
        managed = kubectl("get", "sds", SERVER, "-n", NAMESPACE, "-o", "json", "--show-managed-fields")
        self.result.spec_writers = spec_writers(json.loads(managed)["metadata"]["managedFields"])

    def roll(self, version: str, drafter: str, promise: str) -> None:
        """Apply one version, wait until the operator has decided, and note what it took."""
        assert self.traffic
        file = f"{version.removesuffix(' again').replace(' ', '-')}.yaml"
        say(f"{version} ({drafter}), expected to be {promise}: kubectl apply -f examples/demo/{file}")
        chapter = Chapter(version, drafter, promise, applied=time.time())
        chapter.before = next(past.after for past in reversed(self.result.chapters) if past.after)
        kubectl("apply", "-f", str(EXAMPLES / file))
        server = wait_for(f"the operator's decision on {version}", 240, self.decided)
        chapter.done = time.time()
        current = condition(server, "DrafterCurrent")
        chapter.outcome = "Promoted" if current["status"] == "True" else "Rejected"
        self.note_candidate(chapter)
        self.note_verdict(chapter)
        if chapter.swapped:  # what was never swapped in leaves users nothing to notice
            chapter.after = window(self.traffic.wait_requests(CYCLE, chapter.done))
            hit = touched(self.traffic.requests(), chapter.swapped, chapter.back or chapter.done)
            chapter.touched, chapter.during = len(hit), window(hit)
        self.result.chapters.append(chapter)
        say(f"{version}: {chapter.outcome}. {current['message']}")

    def show(self, block: str, *args: str) -> None:
        """Keep what a user would see of a kubectl command, for README."""
        where = () if args[0] == "explain" else ("-n", NAMESPACE)
        shown = kubectl(*args, *where)
        self.outputs.setdefault(block, []).append(
            f"$ kubectl {' '.join((*args, *where))}\n{shown.rstrip()}\n"
        )

    def photograph(self, *args: str) -> None:
        """Keep what a user's terminal would show of a kubectl command, for README's picture."""
        self.screen = (f"kubectl {' '.join(args)}", terminal.shown([str(KUBECTL), *args], as_person()))

    def decided(self) -> dict[str, Any] | None:
        """Return the server once the newest generation is either promoted or rejected."""
        server = get("sds", SERVER, NAMESPACE)
        current = condition(server, "DrafterCurrent").get("status") == "True"
        rejected = condition(server, "Stalled").get("status") == "True"
        settled = condition(server, "Reconciling").get("status") == "False"
        return server if settled and (current or rejected) else None

    def note_candidate(self, chapter: Chapter) -> None:
        """Take over what the agent says of its last candidate, if that is this chapter's."""
        assert self.traffic
        time.sleep(1.0)  # two more looks of the client at the agent, so that the record is whole
        candidates = [r["status"].get("candidate") for r in self.traffic.statuses()]
        mine = [c for c in candidates if c and latest(c) > chapter.applied]
        if mine:
            from_candidate(chapter, mine[-1])

    def note_verdict(self, chapter: Chapter) -> None:
        """Take over the operator's verdict from the revision's record."""
        verdict = install.verdict(NAMESPACE, SERVER, chapter.version[:2])
        chapter.reason, chapter.verdict = verdict.reason, unix(verdict.at)
        if chapter.back and chapter.verdict and chapter.back < chapter.verdict:
            # The agent's own verdict; the operator wrote it down later.
            chapter.verdict = chapter.back - (chapter.back_seconds or 0)
        chapter.verify_calls = verdict.calls
        chapter.sentence = verdict.message


def latest(candidate: Record) -> float:
    """Time of the newest thing that happened to a candidate."""
    return max(unix(candidate.get(key, "")) or 0.0 for key in ("swappedAt", "backAt"))


def clean_up() -> None:
    """Remove what the demo made in the cluster."""
    delete_namespace(NAMESPACE)
    kubectl("delete", "pv", "specdec-demo-models", "--ignore-not-found")
