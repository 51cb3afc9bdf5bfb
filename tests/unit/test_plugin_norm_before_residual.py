from __future__ import annotations

import types
from typing import Any

from specdec.engine.plugin.norm_before_residual import mark_layer


class Norm:
    """Doubles, so that a second call shows."""

    def forward(self, state: float) -> float:
        return 2 * state

    def __call__(self, state: float) -> float:
        return self.forward(state)


class Layer:
    """As SGLang's: keeps what it is given as the residual and norms it for its attention."""

    def __init__(self, config: Any, first: bool) -> None:
        self.is_input_layer = first
        self.hidden_norm = Norm()

    def forward(self, positions: Any, embeds: Any, hidden_states: float) -> tuple[float, float]:
        return self.hidden_norm(hidden_states), hidden_states


def served(first: bool = True, **config: Any) -> tuple[float, float]:
    layer = Layer.__new__(Layer)
    mark_layer(Layer.__init__, layer, types.SimpleNamespace(**config), first)
    return layer.forward(None, None, 1.0)


def test_residual_and_attention_get_the_state_that_was_normed_once():
    assert served(norm_before_residual=True) == (2.0, 2.0)


def test_other_drafters_and_later_layers_stay_as_they_are():
    assert (
        served()
        == served(norm_before_residual=False)
        == served(False, norm_before_residual=True)
        == (2.0, 1.0)
    )
