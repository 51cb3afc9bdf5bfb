"""What a drafter of a known quality must reach, so that tests compare with a figure and not with a guess."""

from __future__ import annotations

from tests.support.models.codes import SIGMA
from tests.support.models.drafter import wrong_ids


def expected_accept_length(quality: float, steps: int = 3) -> float:
    """Accept length on average over the cycle: 1 + p + ... + p^steps."""
    return sum(quality**k for k in range(steps + 1))


def simulate(last_token: int, tokens: int, quality: float, steps: int = 3) -> list[int]:
    """Correct drafts of each verify call of one greedy answer, as the engine must count them.

    Parameters
    ----------
    last_token
        The prompt's last token: prefill answers with the token after it.
    tokens
        Length of the answer; the last verify call may overshoot it.
    """
    wrong = set(wrong_ids(quality).tolist())
    newest = int(SIGMA[last_token])
    written, calls = 1, []
    while written < tokens:
        correct = 0
        while correct < steps and int(SIGMA[newest]) not in wrong:
            newest = int(SIGMA[newest])
            correct += 1
        newest = int(SIGMA[newest])
        calls.append(correct)
        written += correct + 1
    return calls


def answer(last_token: int, tokens: int) -> list[int]:
    """Greedy answer to a prompt that ends with this token, whatever drafts for it."""
    written = [int(SIGMA[last_token])]
    while len(written) < tokens:
        written.append(int(SIGMA[written[-1]]))
    return written
