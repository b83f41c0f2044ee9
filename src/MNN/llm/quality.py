"""How well a model foresees a text."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from MNN.errors import MNNError
from MNN.llm.engine.decoder import Decoder

WINDOW = 512
"""Tokens whose logits are computed at once."""


@dataclass(frozen=True)
class Perplexity:
    """``value``: e to the mean of ``-log p`` over ``tokens`` tokens, each foreseen from those before it in its window;
    ``error``: the standard error of the value."""

    value: float
    error: float
    tokens: int


def perplexity(
    decoder: Decoder,
    tokens: Sequence[int],
    context: int | None = None,
    told: Callable[[int, int], None] | None = None,
) -> Perplexity:
    """Of a text, in windows of ``context`` tokens (by default what the model was made for), the first token of each
    being given. ``told`` hears how many tokens of how many are done. Raises :class:`MNNError` for less than two tokens.
    """
    longest = decoder.max_length if context is None else context
    size = min(longest or len(tokens), len(tokens))
    if size < 2:
        raise MNNError(f"a perplexity needs a text of two tokens or more; this one has {len(tokens)}")
    losses: list[np.ndarray] = []
    for begin in range(0, len(tokens) - 1, size):
        window, text = tokens[begin : begin + size], decoder.text()
        for at in range(0, len(window) - 1, WINDOW):
            part = window[at : at + WINDOW]
            wanted = window[at + 1 : at + WINDOW + 1]
            losses.append(_losses(decoder.feed(text, part, every=True)[: len(wanted)], wanted))
            if told is not None:
                told(begin + at + len(part), len(tokens))
    found = np.concatenate(losses)
    value = math.exp(float(found.mean()))
    return Perplexity(value, value * float(found.std()) / math.sqrt(len(found)), len(found))


def _losses(logits: np.ndarray, wanted: Sequence[int]) -> np.ndarray:
    """``-log p`` of each token."""
    top = logits.max(1)
    total = top + np.log(np.exp(logits - top[:, None]).sum(1, dtype=np.float64))
    found: np.ndarray = total - logits[np.arange(len(wanted)), np.asarray(wanted)]
    return found


__all__ = ["Perplexity", "perplexity"]
