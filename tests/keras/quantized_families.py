"""Models that ``quantize`` has changed: products, sums and tables of integers; see :mod:`tests.keras.families`.

A maker gives the model as it is before, and notes in ``quantise_to`` what :mod:`tests.keras.record` does to it.
"""

from __future__ import annotations

from typing import Any

import keras
from keras import layers
from keras.quantizers import AbsMaxQuantizer, Int4QuantizationConfig, Int8QuantizationConfig

from tests.keras.families import Rng, family, pick, some


def _network(rng: Rng) -> keras.Model:
    """An odd number of everything, kernels longer than a block, and equations in several orders."""
    width, words = some(rng, 3, 40), some(rng, 3, 9)
    x, numbers = keras.Input((some(rng, 2, 5), width)), keras.Input((some(rng, 2, 5),), dtype="int32")
    dense = layers.Dense(some(rng, 1, 9), activation=pick(rng, None, "relu"), use_bias=bool(rng.integers(2)))(x)
    dense = layers.Dense(some(rng, 1, 5))(dense)
    heads, size = some(rng, 2, 3), some(rng, 2, 5)
    equation, shape, bias = pick(
        rng, ("abc,cde->abde", (None, heads, size), "de"), ("abc,cd->adb", (size, x.shape[1]), None),
        ("abc,cde->adeb", (heads, size, x.shape[1]), None),
    )  # fmt: skip
    summed = layers.EinsumDense(equation, shape, bias_axes=bias)(x)
    rows = layers.Embedding(words, some(rng, 2, 40), mask_zero=bool(rng.integers(2)))(numbers)
    rows = layers.Dense(some(rng, 1, 5))(rows)
    return keras.Model([x, numbers], [dense, summed, rows])


@family("QuantizedInt8", "QuantizedInt8Weights")
def eight_bits(rng: Rng, name: str) -> Any:
    model = _network(rng)
    inputs = None if name.endswith("Weights") else AbsMaxQuantizer(axis=-1)
    plain = name == "QuantizedInt8" and bool(rng.integers(2))
    model.quantise_to = ("int8", None if plain else Int8QuantizationConfig(activation_quantizer=inputs))
    return model


@family("QuantizedInt4")
def four_bits(rng: Rng) -> Any:
    model = _network(rng)
    block = pick(rng, 128, 16, 8, -1)
    model.quantise_to = ("int4", None if block == 128 else Int4QuantizationConfig(block_size=block))
    return model


@family("LowRank")
def low_rank(rng: Rng) -> Any:
    """LoRA, which a ``.keras`` archive holds added up."""
    model = _network(rng)
    for layer in model.layers:
        if hasattr(layer, "enable_lora"):
            layer.enable_lora(2)
    return model
