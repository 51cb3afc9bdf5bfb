"""The comparison of drafting with none: what is made of counters and deadlines."""

from __future__ import annotations

import asyncio

import pytest

from specdec.engine.agent.loopback_client import Reply, RequestFailedError
from specdec.engine.agent.prompts import PROMPTS, long
from specdec.engine.agent.warmup import TOKENS, Baseline, Found, Spent, spent
from specdec.engine.loopback import Outcome, Report, Steps
from specdec.engine.protocol import Agreement, Counters, ProbeResult, Source, Speed, WarmUp

PROBED = ProbeResult(id="warmup", revision="r", passed=True, accept_length="3.100", calls=40)


def row(steps: int, tokens: int, seconds: str, calls: int = 0, source: Source = Source.PROBE) -> Counters:
    return Counters(
        revision="r",
        steps=steps,
        source=source,
        tokens=tokens,
        seconds=seconds,
        calls=calls,
        correct=(calls // 2,) * steps,
    )


def test_only_the_agents_own_requests_of_that_mode_count():
    rows = [row(3, 90, "1.5", 30, Source.TRAFFIC), row(0, 20, "2"), row(3, 60, "2", 20)]
    assert spent(rows, "r", 3) == Spent(60, 2.0, 20, (10, 10, 10))
    assert spent(rows, "r", 0) == Spent(20, 2.0, 0, ())
    assert spent(rows, "another", 3) == Spent()


def test_a_round_is_what_came_between_two_looks():
    done = Spent(60, 2.0, 20, (10, 8, 6)) - Spent(20, 1.0, 5, (4, 2, 0))
    assert done == Spent(40, 1.0, 15, (6, 6, 6))
    assert done.speed == "40.0"
    assert (done - done).speed == ""


def test_a_first_look_has_no_positions_yet():
    assert (Spent(60, 2.0, 20, (10, 8, 6)) - Spent()).correct == (10, 8, 6)


def test_what_a_deadline_cut_off_is_left_out_and_said():
    found = Found(speeds={(1, True): "90.0", (1, False): "40.0", (4, False): "120.0"}, message="cut short")
    warmed = found.warmed(PROBED)
    assert warmed.speeds == (Speed(batch=1, on="90.0", off="40.0"), Speed(batch=4, off="120.0"))
    assert (warmed.accept_length, warmed.calls, warmed.answers) == ("3.100", 40, Agreement.UNKNOWN)
    assert warmed.message == "cut short"


def test_the_accept_length_is_of_all_the_warm_ups_calls():
    warmed = Found(drafted=Spent(300, 3.0, 100, (80, 60, 40))).warmed(PROBED)
    assert (warmed.accept_length, warmed.calls) == ("2.800", 100)
    assert warmed.per_position == ("0.80", "0.60", "0.40")


class Engine:
    """A loopback that notes what it is asked; a request takes a second of the fake clock's time."""

    def __init__(self, *, ids: bool = True) -> None:
        self.steps = 3
        self.differs = False
        self.below = 0.0
        self.to_images = 500
        self.about_images = "A red square on white paper."
        self.trail: list[tuple[int, str]] = []
        self.tokens: list[int] = []
        self.scoring = self.most_scoring = 0
        self._ids = ids

    async def order(self, order: Steps) -> int:
        self.steps = order.steps
        return 1

    async def settled(self, number: int, **_: float) -> Outcome:
        return Outcome(number=number, state="done")

    async def report(self) -> Report:
        asked = [steps for steps, _ in self.trail]
        rows = tuple(
            row(
                steps,
                48 * asked.count(steps),
                str(asked.count(steps)),
                12 * asked.count(steps) if steps else 0,
            )
            for steps in (0, 3)
        )
        return Report(rank=0, sglang="0", patches=(), revision="r", steps=3, states=(0, 3), counters=rows)

    async def chat(self, prompt: str, *, max_tokens: int = 0, image: str = "", **_: float) -> Reply:
        if image and self.to_images != 200:
            raise RequestFailedError(f"SGLang answered {self.to_images}", self.to_images)
        if image:
            return Reply(text=self.about_images)
        self.trail.append((self.steps, prompt))
        self.tokens.append(max_tokens)
        await asyncio.sleep(0.005)  # else the probe asks a million times between two looks
        # With drafting the last token is another one.
        return Reply("words", (1, 2), (3, 4 + self.differs * self.steps) if self._ids else ())

    async def below_best(
        self, prompt: tuple[int, ...], answer: tuple[int, ...], **_: float
    ) -> tuple[float, ...]:
        self.scoring += 1
        self.most_scoring = max(self.most_scoring, self.scoring)
        await asyncio.sleep(0)
        self.scoring -= 1
        drafted = answer[-1] != 4
        return (0.0,) * (len(answer) - 1) + (self.below if drafted else 0.0,)


def baseline(
    engine: Engine,
    most_running: int = 8,
    context: int = 512,
    prompts: tuple[str, ...] = PROMPTS,
    **more: bool,
) -> Baseline:
    return Baseline(engine, "r", 3, most_running, context, prompts, **more)  # type: ignore[arg-type]


async def compared(asked: Baseline, *, seconds: float = 10) -> WarmUp:
    return await asked.compare(PROBED, asked.comparable(), seconds=seconds)


async def test_both_modes_get_the_same_prompts_in_an_order_that_favours_neither():
    engine = Engine()
    warmed = await compared(baseline(engine))
    assert [steps for steps, _ in engine.trail] == [3] * 4 + [0] * 5 + [3] * 2
    drafted = [prompt for steps, prompt in engine.trail if steps]
    plain = [prompt for steps, prompt in engine.trail if not steps]
    assert drafted[:5] == plain
    assert len(set(drafted)) == 6
    assert max(map(len, drafted)) > 2 * max(map(len, PROMPTS))
    assert engine.steps == 3
    assert [speed.batch for speed in warmed.speeds] == [1, 4]
    assert warmed.answers is Agreement.SAME


async def test_the_comparison_asks_what_the_probe_asked_first():
    engine = Engine()
    finding, warmed = await baseline(engine).measure(10)
    assert (finding.result.passed, warmed.answers) == (True, Agreement.SAME)
    probed = [prompt for _, prompt in engine.trail[:4]]
    assert engine.trail[-11:-3] == [(steps, prompt) for steps in (3, 0) for prompt in probed]


async def test_requests_that_are_asked_one_at_a_time_share_the_tokens_of_one():
    engine = Engine()
    await compared(baseline(engine))
    assert engine.tokens == [TOKENS] * 8 + [TOKENS // 2] * 3


@pytest.mark.parametrize(("below", "answers"), [(0.1, Agreement.SAME), (9.0, Agreement.DIFFERENT)])
async def test_answers_that_part_are_scored_together_and_judged_by_the_token_where_they_part(
    below: float, answers: Agreement
):
    engine = Engine()
    engine.differs, engine.below = True, below
    warmed = await compared(baseline(engine))
    assert warmed.answers is answers
    assert engine.most_scoring == 4
    assert ("drafting changed 5 of 5 greedy answers" in warmed.message) is (answers is Agreement.DIFFERENT)


async def test_no_batch_is_larger_than_what_the_engine_runs_at_once():
    warmed = await compared(baseline(Engine(), most_running=1))
    assert [speed.batch for speed in warmed.speeds] == [1]


async def test_an_engine_that_runs_one_at_a_time_compares_a_long_prompt_too():
    engine = Engine()
    await compared(baseline(engine, most_running=1))
    assert [steps for steps, _ in engine.trail] == [3, 3, 0, 0]
    assert len(engine.trail[-1][1]) > 2 * max(map(len, PROMPTS))


async def test_a_short_context_has_no_long_prompt():
    engine = Engine()
    await compared(baseline(engine, context=128))
    assert max(len(prompt) for _, prompt in engine.trail) + TOKENS < 160


async def test_the_users_prompts_are_asked_and_taken_again_where_there_are_too_few():
    engine = Engine()
    await compared(baseline(engine, prompts=("Translate this.",)))
    short = [prompt for _, prompt in engine.trail if len(prompt) < 50]
    assert short
    assert all(prompt.endswith("] Translate this.") for prompt in short)
    assert len({prompt for _, prompt in engine.trail}) == 6


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("A red square on white paper.", ""),
        ("", "a request with an image was answered with ''"),
        ("ppppppppppppppppppppppppppp", "a request with an image was answered with 'pppp"),
    ],
)
async def test_what_a_target_says_of_an_image_must_be_words(text: str, said: str):
    engine = Engine()
    engine.to_images, engine.about_images = 200, text
    _, warmed = await baseline(engine, sees=True).measure(1.0)
    assert said in warmed.message
    assert ("image" in warmed.message) is bool(said)
    assert warmed.images is not bool(said)


@pytest.mark.parametrize(
    ("sees", "status", "said", "answered"),
    [
        (True, 500, "a request with an image failed: SGLang answered 500", False),
        (True, 400, "images were not checked: SGLang answered 400; the target has a vision_config", False),
        (False, 500, "", None),
    ],
)
async def test_only_a_target_that_sees_is_asked_about_an_image(
    sees: bool, status: int, said: str, answered: bool | None
):
    engine = Engine()
    engine.to_images = status
    _, warmed = await baseline(engine, sees=sees).measure(1.0)
    assert said in warmed.message
    assert ("image" in warmed.message) is bool(said)
    assert warmed.images is answered


async def test_no_time_left_asks_about_no_image_and_says_so(caplog):
    engine = Engine()
    _, warmed = await baseline(engine, sees=True).measure(0)
    assert (warmed.images, engine.trail) == (None, [])
    assert "images were not checked, as no time was left" in caplog.text


async def test_no_time_left_compares_nothing_and_says_so():
    engine = Engine()
    warmed = await compared(baseline(engine), seconds=0)
    assert warmed.speeds == ()
    assert "cut short" in warmed.message
    assert engine.steps == 3


async def test_an_engine_without_token_ids_leaves_the_answers_unknown():
    warmed = await compared(baseline(Engine(ids=False)))
    assert (warmed.answers, len(warmed.speeds)) == (Agreement.UNKNOWN, 2)
    assert "no token ids" in warmed.message


@pytest.mark.parametrize("characters", [0, 37, 38, 1000, 4000])
def test_a_long_prompt_is_as_long_as_asked(characters):
    assert len(long(characters)) == max(characters, len(long(0)))
