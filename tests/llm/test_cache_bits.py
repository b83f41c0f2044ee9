"""What keys and values in 16 bits cost: logits beside those of a cache of f32, in one piece and token by token."""

from __future__ import annotations

import numpy as np
import pytest

from MNN.llm.models.cache import PAGE
from MNN.runtime.config import Config
from tests.llm import cases
from tests.llm.check import Arrays, decoder_of
from tests.llm.test_families import RECORDED

LOST = 1.5e-3
"""The most of 23 dense families is 8e-4 but for Gemma's 1.5e-3; f16 lost up to 4e-3, and 1.4e-2."""


@pytest.mark.parametrize("family", ["llama", "gemma2", "deepseek_v2", "mixtral"])
def test_sixteen_bits(family: str) -> None:
    """Shared heads, windows, capped scores, keys and values of different sizes, and mixtures."""
    notes = next(n for n in RECORDED if n["config"]["model_type"] == family)
    data, tokens, found = Arrays(cases.weights(notes["shapes"], notes["seed"])), cases.tokens(3, 2 * PAGE + 15), []
    for bits in (32, 16):
        decoder = decoder_of(notes["config"], data, Config(precision="high", cache=False), 4 * PAGE, bits)
        text = decoder.text()
        whole = decoder.feed(text, tokens[: 2 * PAGE + 9], every=True)
        found.append(np.concatenate([whole, *(decoder.feed(text, [token]) for token in tokens[2 * PAGE + 9 :])]))
    exact, rounded = found
    assert 0 < np.abs(rounded - exact).max() <= LOST * np.abs(exact).max()
