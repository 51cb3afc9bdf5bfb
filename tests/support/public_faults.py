"""The sixteen public faults that made drafters useless without an error: who finds each, and which test shows it.

Ten show in files and arguments; each of those is a fixture here. The others show only in a running engine.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tests.support.headers import VOCABULARY, Fixture, kimi_k25, llama, mla

from specdec.preflight.arguments import Arguments, rendered
from specdec.preflight.facts import Convention, Declared
from specdec.preflight.preflight import RepairMode, Request
from specdec.preflight.source import LocalFolder

NOTHING, USUAL = Declared(), rendered()


@dataclass(frozen=True)
class Shown:
    """One fault that files or arguments show."""

    number: int
    title: str
    code: str
    drafter: Fixture
    version: str = "0.5.23"
    declared: Declared = NOTHING
    arguments: Arguments = USUAL

    def request(self, place: Path) -> Request:
        """Write drafter and target below a folder; judged on stock SGLang, without repair."""
        return Request(
            LocalFolder(self.drafter.write(place / "drafter")), LocalFolder(kimi_k25().write(place / "Kimi-K2.5")),
            self.version, arguments=self.arguments, declared=self.declared, patches=frozenset(), repair=RepairMode.NEVER,
        )  # fmt: skip


@dataclass(frozen=True)
class Lived:
    """One fault that no file shows."""

    number: int
    title: str
    story: str
    """Words of its row in `specdec.preflight.stories.LIVE`, which names the layer."""
    tests: tuple[str, ...]
    """Where it is caught: node ids of pytest, as far as the fault is one of a test's cases with the case."""


def absolute() -> Fixture:
    """The sound drafter with target ids in d2t."""
    fixture = llama()
    return fixture.mapping([index + offset for index, offset in enumerate(fixture.d2t or ())], fixture.t2d)


def _ids(*ids: int) -> Fixture:
    return llama().with_config(eagle_config={"eagle_aux_hidden_state_layer_ids": list(ids)})


def _without_a_drafter() -> Arguments:
    values = rendered().values
    return Arguments({name: values[name] for name in values if name != "--speculative-draft-model-path"})


SHOWN = (
    Shown(1, "names that no version knows", "ParametersNotFed", llama().renamed("midlayer.", "model.decoder.0.")),
    Shown(1, "names of a newer version", "ParametersNotFed", llama().renamed("midlayer.", "layers.0."), "0.5.11"),
    Shown(2, "EAGLE with an EAGLE-3 drafter", "AlgorithmDiffers", llama(), arguments=rendered(algorithm="EAGLE")),
    Shown(3, "a declared head that is missing", "HeadMissing", mla().without("lm_head.weight")),
    Shown(6, "a target that hands no states on", "TargetCannotCapture", llama(), "0.5.9"),
    Shown(7, "layer -1 on an engine without it", "EmbeddingNotCaptured", _ids(-1, 2, 30)),
    Shown(7, "layers one off", "LayersDiffer", llama(), declared=Declared(convention=Convention.OUTPUT)),
    Shown(8, "absolute ids in d2t", "TokenMapAbsolute", absolute()),
    Shown(9, "no drafter: the target drafts for itself", "DraftPathMissing", llama(), arguments=_without_a_drafter()),
    Shown(10, "a plain Llama's class", "ArchitectureMisnamed", llama().with_config(architectures=["LlamaForCausalLM"])),
    Shown(10, "forty layers in the config of one", "TooManyLayers", llama().with_config(num_hidden_layers=40)),
    Shown(11, "another vocabulary", "VocabularyDiffers", llama().with_config(vocab_size=VOCABULARY - 1)),
    Shown(14, "latent attention on an older version", "ArchitectureTooNew", mla(), "0.5.11"),
)  # fmt: skip

CLOSED = "tests/security/test_closed_routes.py::test_the_engine_opens_no_admin_route_to_users"

LIVED = (
    Lived(4, "draft weights lost by releasing memory", "resume of memory", (
        f"{CLOSED}[/{{}}-release_memory_occupation]",
        f"{CLOSED}[/{{}}-resume_memory_occupation]",
        "tests/engine/test_agent_on_the_engine.py::test_a_dead_candidate_is_gone_in_seconds_and_no_request_fails",
        "tests/scenarios/test_trouble.py::test_an_active_drafter_that_goes_bad_later_is_replaced_by_the_one_before",
    )),
    Lived(5, "a stale drafter after an update of the target", "stale drafter", (
        f"{CLOSED}[/{{}}-update_weights_from_distributed]",
        "tests/scenarios/test_trouble.py::test_an_active_drafter_that_goes_bad_later_is_replaced_by_the_one_before",
    )),
    Lived(12, "another chat template or reasoning mode", "chat template", (
        "tests/scenarios/test_story.py::test_a_drafter_below_the_floor_is_found_on_live_traffic_and_rolled_back",
        "tests/scenarios/test_beside.py::test_a_regression_above_the_floor_is_rolled_back",
    )),
    Lived(13, "a domain that training left out", "domain", (
        "tests/scenarios/test_trouble.py::test_a_shift_of_the_workload_keeps_the_drafter_and_says_so_once",
        "tests/unit/test_acceptance_compare.py::test_a_regression_is_found_under_the_same_traffic",
        "tests/scenarios/test_story.py::test_a_drafter_below_the_floor_is_found_on_live_traffic_and_rolled_back",
    )),
    Lived(15, "acceptance that falls with the prefix cache", "prefix cache", (
        "tests/engine/test_plugin_swap.py::test_a_request_matches_no_draft_kv_of_another_drafter",
        "tests/scenarios/test_trouble.py::test_an_active_drafter_that_goes_bad_later_is_replaced_by_the_one_before",
    )),
    Lived(16, "a gauge that is read wrong, or stands still", "gauge", (
        "tests/unit/test_acceptance_measure.py::test_a_gauge_that_stands_still_is_no_evidence",
        "tests/engine/test_plugin_counters.py::test_counters_equal_the_figures_of_every_request_across_a_swap",
    )),
)  # fmt: skip
