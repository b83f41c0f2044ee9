"""Models with recurrent layers whose weights have few bits, and whose activations are rounded."""

from __future__ import annotations

import numpy as np
import pytest

from MNN.ir.quant import QuantizedArray
from MNN.llm.engine.loaded import ROUTERS, row_bits_of, with_rounding
from MNN.llm.models.weights import Array
from MNN.runtime.config import Config
from tests.llm import cases
from tests.llm.check import decoder_of
from tests.llm.test_families import RECORDED

READ, WRITTEN = 44, 6
"""Tokens that are read at once, and one by one."""
WHOLE = ("embed", "conv1d", "A_log")
"""Parts of names of what is no layer's matrix."""


class Quantized(dict[str, Array]):
    """Random weights, matrices in blocks of ``bits``-bit integers; ``plain``: as the floats that these stand for."""

    def __init__(self, data: dict[str, np.ndarray], bits: int, symmetric: bool, row_bits: int, plain: bool) -> None:
        super().__init__(data)
        for name, array in data.items():
            if array.ndim != 2 or name.endswith(ROUTERS) or any(part in name for part in WHOLE):
                continue
            weight = _blocks(array, bits, symmetric)
            self[name] = weight.dequantize() if plain else with_rounding(weight, name, row_bits)

    def shape(self, name: str) -> tuple[int, ...]:
        return tuple(self[name].shape)


def _blocks(array: np.ndarray, bits: int, symmetric: bool) -> QuantizedArray:
    rows, cols = array.shape
    size = next((n for n in (32, 16, 8) if cols % n == 0), cols)
    blocks, half = array.reshape(rows, -1, size), 1 << (bits - 1)
    low = -np.abs(blocks).max(2) if symmetric else blocks.min(2)
    scale = np.where(symmetric, -low / max(half - 1, 1), (blocks.max(2) - low) / ((1 << bits) - 1))
    middle = np.where(symmetric, 0.0, low + half * scale)
    codes = np.clip(np.rint((blocks - middle[:, :, None]) / scale[:, :, None]), -half, half - 1)
    offset = None if symmetric else middle.astype(np.float32)
    values = codes.astype(np.int8).reshape(rows, cols)
    return QuantizedArray.of(values, scale.astype(np.float32), offset, bits, (rows, cols))


def _weights(family: str) -> tuple[dict[str, object], dict[str, np.ndarray]]:
    """Those of a small model; states fade as slowly as those of models that are about to be trained, since noise in
    random ones that forget at once says nothing."""
    notes = next(n for n in RECORDED if n["config"]["model_type"] == family)
    data, rng = cases.weights(notes["shapes"], notes["seed"]), np.random.default_rng(notes["seed"])
    for name, array in data.items():
        if name.endswith("dt_bias"):
            steps = np.exp(rng.uniform(np.log(1e-3), np.log(1e-1), array.shape))
            data[name] = (steps + np.log(-np.expm1(-steps))).astype(np.float32)
        elif name.endswith("A_log"):
            data[name] = np.log(rng.uniform(1, 16, array.shape)).astype(np.float32)
    return notes["config"], data


def _logits(
    family: str, bits: int, symmetric: bool, settings: Config, row_bits: int, plain: bool = False
) -> np.ndarray:
    """Of a text that is read, then written."""
    config, data = _weights(family)
    decoder = decoder_of(config, Quantized(data, bits, symmetric, row_bits, plain), settings)
    tokens, text = cases.tokens(3, READ + WRITTEN), decoder.text()
    pieces = [tokens[:READ], *([token] for token in tokens[READ:])]
    return np.concatenate([decoder.feed(text, piece, every=True) for piece in pieces])


def _exact(family: str, bits: int, symmetric: bool) -> np.ndarray:
    return _logits(family, bits, symmetric, Config(precision="high", cache=False), 0, plain=True)


@pytest.mark.parametrize(
    ("family", "bits", "symmetric", "threads"),
    [("mamba2", 3, True, 1), ("qwen3_next", 2, False, 2), ("jamba", 3, False, 2)],
)
def test_few_bits(family: str, bits: int, symmetric: bool, threads: int) -> None:
    """Nothing is lost beside the floats that the integers stand for."""
    found = _logits(family, bits, symmetric, Config(precision="high", cache=False, threads=threads), 0)
    wanted = _exact(family, bits, symmetric)
    assert np.abs(found - wanted).max() <= 1e-4 * np.abs(wanted).max()


@pytest.mark.parametrize(("precision", "bound"), [("normal", 0.05), ("low", 0.1)])
def test_rounded_activations(precision: str, bound: float) -> None:
    """2 % of the logits (root of the mean square) by default, and 6 % at ``low``."""
    wanted = _exact("qwen3_5_text", 4, False)
    settings = Config(precision=precision, cache=False, threads=2)
    found = _logits("qwen3_5_text", 4, False, settings, row_bits_of(precision, None))
    assert np.sqrt(np.mean((found - wanted) ** 2)) <= bound * np.sqrt(np.mean(wanted**2))
