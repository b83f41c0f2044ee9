"""Weights of a file as families take them, quantised while they are read where that is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import numpy as np

from MNN.errors import MNNError
from MNN.ir.quant import QuantizedArray
from MNN.llm.models.weights import Array

BITS = (4, 8)
"""What weights may be quantised to: with fewer bits, rounding alone leaves nothing of a model."""
BLOCK = 32
"""Neighbouring weights of a row that share a scale."""
TABLES = ("embed", "output", "lm_head")
"""Parts of names: what lies at the ends of a network keeps eight bits at least."""


class Tensor(Protocol):
    """A tensor of a file, of which nothing is read before it is asked for."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    def quantized(self) -> QuantizedArray | None: ...

    def float32(self) -> np.ndarray: ...


class LoadedWeights:
    """The tensors of a file by Hugging Face's names; matrices of floats get ``bits``, where told."""

    def __init__(self, tensors: Mapping[str, Tensor], bits: int | None = None) -> None:
        check_bits(bits)
        self._tensors, self._bits = tensors, bits

    def __contains__(self, name: object) -> bool:
        return name in self._tensors

    def shape(self, name: str) -> tuple[int, ...]:
        return self._tensors[name].shape

    def __getitem__(self, name: str) -> Array:
        tensor = self._tensors[name]
        held = tensor.quantized()
        if held is not None:
            return held
        data = np.ascontiguousarray(tensor.float32())
        if self._bits is None or data.ndim != 2 or data.shape[1] % BLOCK:
            return data
        at_an_end = any(part in name for part in TABLES) and "self_attn" not in name
        return quantize(data, max(self._bits, 8) if at_an_end else self._bits)


def check_bits(bits: int | None) -> None:
    if bits is not None and bits not in BITS:
        raise MNNError(f"weights can be quantised to {', '.join(map(str, BITS))} bits, not to {bits!r}")


def quantize(weight: np.ndarray, bits: int, block: int = BLOCK) -> QuantizedArray:
    """A matrix f32 ``[rows, cols]`` with one scale and offset for each block of a row, from its smallest number to its
    largest."""
    rows, cols = weight.shape
    blocks, half = weight.reshape(rows, cols // block, block), 1 << (bits - 1)
    low, high = blocks.min(2), blocks.max(2)
    scale = (high - low) / np.float32((1 << bits) - 1)
    step = np.where(scale > 0, scale, np.float32(1))
    codes = np.rint((blocks - low[:, :, None]) / step[:, :, None]) - np.float32(half)
    values = np.clip(codes, -half, half - 1).astype(np.int8).reshape(rows, cols)
    offset = (low + np.float32(half) * scale).astype(np.float32)
    return QuantizedArray.of(values, scale.astype(np.float32), offset, bits, (rows, cols))


__all__ = ["BITS", "BLOCK", "LoadedWeights", "Tensor", "check_bits", "quantize"]
