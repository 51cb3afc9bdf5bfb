"""Parts whose figures are known beforehand: tiny models of computed answers, drafts and acceptance."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import NamedTuple

from tests.gpu.rows import Rows, say
from tests.gpu.servers import Server, at_once, done, running, swap
from tests.support.engine import STEPS, Engine, Generation
from tests.support.models import (
    KIMI_LATENT,
    DrafterShape,
    answer,
    drafter,
    expected_accept_length,
    kimi,
    latent_drafter,
    simulate,
)
from tests.support.models.codes import FIRST_TEXT, SIGMA, WIDTH

from specdec.engine.loopback import Steps

TEXT = WIDTH - FIRST_TEXT
TOKENS = 41
ASKED = 24


class Found(NamedTuple):
    """What was asked of an engine, against what was computed."""

    tokens: int
    """Answers that were other than computed."""
    drafts: int
    """Answers whose count of correct drafts was."""
    accept_length: float
    generations: list[Generation]


def prompts(count: int, first: int = 0) -> list[list[int]]:
    """Prompts of ten different text tokens."""
    return [
        [FIRST_TEXT + (number * 37 + place * 11) % TEXT for place in range(10)]
        for number in range(first, first + count)
    ]


def check(engine: Engine, quality: float, first: int = 0, *, drafting: bool = True) -> Found:
    """Ask one after the other and compare."""
    tokens = drafts = calls = right = 0
    generations = []
    for prompt in prompts(ASKED, first):
        found = engine.generate(prompt, TOKENS)
        expected = sum(simulate(prompt[-1], TOKENS, quality)) if drafting else 0
        tokens += found.tokens != answer(prompt[-1], TOKENS)
        drafts += found.drafts != expected
        calls, right = calls + found.calls, right + found.drafts
        generations.append(found)
    return Found(tokens, drafts, 1 + right / max(1, calls), generations)


def tiny(out: Path, rows: Rows) -> None:
    """A drafter with `norm_before_residual` on a target of Kimi's MLA sizes: on, off and on again."""
    folder = Path("models-tiny").absolute()
    target = kimi(folder / "kimi", KIMI_LATENT)
    first = drafter(folder / "norm-first", DrafterShape(quality=0.7, norm_before_residual=True))
    with running(out, Server("tiny", 31000, target, first)) as (engine,):
        tokens = drafts = 0
        for number, steps in enumerate((STEPS, 0, STEPS)):
            done(engine, Steps(steps=steps))
            found = check(engine, 0.7, 24 * number, drafting=steps > 0)
            tokens, drafts = tokens + found.tokens, drafts + found.drafts
        named = "tiny pair, norm_before_residual, on, off, on: {} other than computed"
        say(rows, named.format("answers"), tokens, f"of {3 * ASKED}")
        say(rows, named.format("drafts"), drafts, f"of {3 * ASKED}")
        say(rows, "tiny pair: drafting off decodes plainly", int(engine.report().plain), "1=yes")


def maps(out: Path, rows: Rows) -> None:
    """Drafters of different draft vocabularies one after the other: d2t is copied where graphs read it."""
    folder = Path("models-maps").absolute()
    target = kimi(folder / "kimi", KIMI_LATENT)
    shapes = {
        "first": DrafterShape(),
        "map-100": DrafterShape(quality=0.7, first_draft_id=100),
        "map-30": DrafterShape(quality=0.4, first_draft_id=30),
    }
    folders = {name: drafter(folder / name, shape) for name, shape in shapes.items()}
    with running(out, Server("maps", 31010, target, folders["first"])) as (engine,):
        for number, name in enumerate(("first", "map-100", "map-30", "first")):
            if number:
                swap(engine, folders[name])
            _compare(rows, engine, f"d2t {name}", shapes[name].quality, 24 * number)


def latent(out: Path, rows: Rows) -> None:
    """An MLA drafter: A as started, then B and A by swaps; keys and values of one mean nothing to the other."""
    target, a, b = latents(Path("models-latent").absolute())
    with running(out, Server("latent", 31020, target, a)) as (engine,):
        there_and_back(engine, a, b, rows)


def latents(folder: Path) -> tuple[Path, Path, Path]:
    """Write a target and two MLA drafters whose keys and values share no code."""
    return (
        kimi(folder / "kimi", KIMI_LATENT),
        latent_drafter(folder / "a", DrafterShape(quality=0.7), slots=1),
        latent_drafter(folder / "b", DrafterShape(quality=0.4, first_draft_id=100), slots=2),
    )


def there_and_back(engine: Engine, a: Path, b: Path, rows: Rows, where: str = "") -> None:
    """Swap an engine that was started with A to B and to A again, and compare with what was computed."""
    fresh = _compare(rows, engine, f"{where}MLA drafter A, as started", 0.7, 0)
    pauses = [swap(engine, b)[1]]
    _compare(rows, engine, f"{where}MLA drafter B, swapped in", 0.4, 24)
    pauses.append(swap(engine, a)[1])
    again = _compare(rows, engine, f"{where}MLA drafter A, swapped back", 0.7, 0)
    differ = sum(
        (one.tokens, one.calls, one.drafts) != (other.tokens, other.calls, other.drafts)
        for one, other in zip(fresh.generations, again.generations, strict=True)
    )
    back = f"{where}MLA drafter A swapped back: answers or drafts other than as started"
    say(rows, back, differ, f"of {ASKED}")
    say(rows, f"{where}MLA drafter: pause of a swap", max(pauses) * 1000, "ms", n=len(pauses))


def _compare(rows: Rows, engine: Engine, what: str, quality: float, first: int) -> Found:
    found = check(engine, quality, first)
    computed = [len(simulate(prompt[-1], TOKENS, quality)) for prompt in prompts(ASKED, first)]
    right = sum(sum(simulate(prompt[-1], TOKENS, quality)) for prompt in prompts(ASKED, first))
    say(rows, f"{what}: accept length", found.accept_length, "tokens", computed=round(1 + right / sum(computed), 4),
        answers_other=found.tokens, drafts_other=found.drafts, n=ASKED)  # fmt: skip
    return found


GAIN = 0.4
SAMPLED, SAMPLED_TOKENS, AT_ONCE = 320, 101, 32


def sampling(out: Path, rows: Rows) -> None:
    """Temperature 1: accept length against what follows of the target's own probability, drafting on and off."""
    folder = Path("models-sampling").absolute()
    target = kimi(folder / "kimi", KIMI_LATENT, gain=GAIN)
    good = latent_drafter(folder / "good", slots=1)
    with running(out, Server("sampling", 31030, target, good)) as (engine,):
        sure = _probability(engine)
        say(
            rows, "temperature 1: probability of the likeliest token", sure, "", computed=round(_softmax(), 4)
        )
        for mode, steps in (("on", STEPS), ("off", 0), ("on again", STEPS)):
            done(engine, Steps(steps=steps))
            _sample(rows, engine, mode, sure, drafting=steps > 0)


def _sample(rows: Rows, engine: Engine, mode: str, sure: float, *, drafting: bool) -> None:
    asked = prompts(SAMPLED, SAMPLED * len(rows))
    found = [
        generation
        for begin in range(0, SAMPLED, AT_ONCE)
        for generation in at_once(engine, asked[begin : begin + AT_ONCE], SAMPLED_TOKENS, temperature=1)
    ]
    pairs = [pair for one in found for pair in zip(one.tokens, one.tokens[1:], strict=False)]
    share = sum(int(SIGMA[before]) == after for before, after in pairs) / len(pairs)
    error = math.sqrt(sure * (1 - sure) / len(pairs))
    say(rows, "temperature 1: share of likeliest tokens in answers", share, "", mode=mode, computed=round(sure, 4),
        standard_errors=round((share - sure) / error, 2), n=len(pairs))  # fmt: skip
    if not drafting:
        return
    calls = sum(one.calls for one in found)
    measured = 1 + sum(one.drafts for one in found) / calls
    # Special tokens are in no draft vocabulary: the drafter knows nothing to say after one.
    special = FIRST_TEXT * (1 - sure) / (WIDTH - 1)
    computed = 1 + (1 - special) * (expected_accept_length(sure, STEPS) - 1)
    spread = math.sqrt(_variance(sure, STEPS) / calls)
    say(rows, "temperature 1: accept length", measured, "tokens", mode=mode, computed=round(computed, 4),
        standard_errors=round((measured - computed) / spread, 2), calls=calls, n=len(found))  # fmt: skip


def _probability(engine: Engine) -> float:
    """Ask the engine itself for the probability of its likeliest token."""
    sampling_params = {"max_new_tokens": 8, "temperature": 0, "ignore_eos": True}
    body = {"input_ids": prompts(1)[0], "sampling_params": sampling_params, "return_logprob": True}
    status, said = engine.request("/generate", body)
    if status != 200:
        raise RuntimeError(f"/generate answered {status}: {said!r}")
    logprobs = json.loads(said)["meta_info"]["output_token_logprobs"]
    return math.exp(sum(entry[0] for entry in logprobs) / len(logprobs))


def _softmax() -> float:
    """Probability of the likeliest token by the head's gain: one logit of gain * sqrt(WIDTH), the others 0."""
    high = math.exp(GAIN * WIDTH**0.5)
    return high / (high + WIDTH - 1)


def _variance(sure: float, steps: int) -> float:
    """Variance of one verify call's correct drafts."""
    chances = [sure**k * (1 - sure) for k in range(steps)] + [sure**steps]
    mean = sum(k * chance for k, chance in enumerate(chances))
    return sum(k * k * chance for k, chance in enumerate(chances)) - mean * mean
