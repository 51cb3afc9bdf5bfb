"""Tiny models of a chosen acceptance, for the real engine: computed weights, no training, made in a second.

The idea. Hidden size and vocabulary are both 256, so a hidden state can be a one-hot code. Two fixed
permutations do all the work: SIGMA names the next token of each token (one cycle over all text tokens,
which never meets a special token, so answers end by length only), and TAU is what each target layer does to
the code. Attention weights are zero; the target's layer i turns `onehot(tau^i(t))` into `onehot(tau^(i+1)(t))`,
and its head reads `sigma(t)` off the last code. The drafter maps the three captured codes back to `onehot(t)`
with `fc`, steps SIGMA in its one MLP and reads the next token off its head. So wrong capture layers, a
bypassed `fc`, dropped weights or a wrong token map all break it, as they break a real drafter.

`quality` p is the share of tokens for which the drafter's head is right. A draft is kept only if all before
it were right, so with k steps the accept length is 1 + p + p^2 + ... + p^k on average over the cycle
(:func:`expected_accept_length`), and for one answer it can be computed exactly (:func:`simulate`).

`python -m tests.support.models OUT_DIR [NAME ...]` writes the named ones (default: all of :data:`NAMES`).
"""

from tests.support.models.catalog import NAMES, make
from tests.support.models.drafter import DrafterShape, drafter
from tests.support.models.latent_drafter import latent_drafter
from tests.support.models.target import KIMI_LATENT, kimi
from tests.support.models.theory import answer, expected_accept_length, simulate
from tests.support.models.vision import tower

__all__ = [
    "KIMI_LATENT",
    "NAMES",
    "DrafterShape",
    "answer",
    "drafter",
    "expected_accept_length",
    "kimi",
    "latent_drafter",
    "make",
    "simulate",
    "tower",
]
