"""In which form weights of language models are written."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from MNN.errors import MNNError
from MNN.ir.quant import QuantizedArray
from MNN.llm.engine.loaded import LoadedWeights, at_an_end, quantize
from MNN.llm.files import Weights
from MNN.llm.files.tensors import WeightTensor
from MNN.llm.models.weights import Array
from MNN.llm.official.calibrated import calibrated
from MNN.weight_quantization.compensated import quantize_compensated

BITS = (2, 3, 4, 8)
BLOCK = 64
"""Weights that share a scale where nothing else is said."""
CHUNK = 4096
"""Rows of a table that are worked on at once."""
Told = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Form:
    """How weights are written. ``bits`` of the layers and ``head_bits`` of the last one; ``block`` neighbours of a row
    share a scale (0: all of them; None: as many as the source has it, or :data:`BLOCK`); ``symmetric``: without an
    offset."""

    bits: int = 4
    block: int | None = None
    symmetric: bool = False
    head_bits: int = 8

    def __post_init__(self) -> None:
        for bits in (self.bits, self.head_bits):
            if bits not in BITS:
                raise MNNError(f"weights can be written in {', '.join(map(str, BITS))} bits, not in {bits}")
        if self.block and not _is_block(self.block):
            raise MNNError(f"blocks are 0 (whole rows) or a power of two from 16 on, not {self.block}")

    def of(self, cols: int) -> int:
        """The size of the blocks of rows of ``cols`` numbers: halved until it divides them."""
        block = (BLOCK if self.block is None else self.block) or cols
        while cols % block:
            block //= 2
        return block

    def for_source(self, tensors: Weights) -> Form:
        """With the blocks of the source, where none are told and it has weights of as many bits: these stay then."""
        if self.block is not None:
            return self
        for name in tensors:
            held = None if at_an_end(name) or len(tensors[name].shape) != 2 else _row(tensors[name]).quantized()
            if held is not None and held.bits == self.bits:
                whole = held.scale.shape[1] == 1
                block = 0 if whole else held.cols // held.scale.shape[1]
                return replace(self, block=block if whole or _is_block(block) else BLOCK)
        return replace(self, block=BLOCK)

    def kept(self, held: QuantizedArray | None, bits: int) -> QuantizedArray | None:
        """What a file has as low-bit weights, where it is of this form already."""
        if held is None or held.bits != bits or held.cols // held.scale.shape[1] != self.of(held.cols):
            return None
        if not np.isfinite(held.scale).all() or (held.offset is not None and not np.isfinite(held.offset).all()):
            return None
        if self.symmetric:
            return held if held.offset is None else None
        return held if held.offset is not None else replace(held, offset=np.zeros_like(held.scale))


class FormedWeights:
    """Tensors whose matrices get a form as they are asked for: what is of this form already stays as it is, ``done``
    are those that were made. ``told`` hears of each."""

    def __init__(
        self, tensors: Weights, form: Form, told: Told, done: Mapping[str, QuantizedArray] | None = None
    ) -> None:
        self._tensors, self._form, self._told, self._done = tensors, form, told, done or {}
        self._seen: set[str] = set()

    def __contains__(self, name: object) -> bool:
        return name in self._tensors

    def shape(self, name: str) -> tuple[int, ...]:
        return self._tensors[name].shape

    def __getitem__(self, name: str) -> Array:
        self._seen.add(name)
        self._told("weights", len(self._seen), len(self._tensors))
        if name in self._done:
            return self._done[name]
        bits = self._form.head_bits if at_an_end(name) else self._form.bits
        held = self._form.kept(self._tensors[name].quantized(), bits)
        if held is not None:
            return held
        data = np.ascontiguousarray(self._tensors[name].float32())
        if data.ndim != 2:
            return data
        _check_finite(self._tensors, name, data)
        return _in_rows(data, bits, self._form.of(data.shape[1]), self._form.symmetric)


def _row(tensor: WeightTensor) -> WeightTensor:
    """The first row of a matrix, which tells how it is stored."""
    return tensor.take(slice(0, 1), (1, tensor.shape[1]))


def _is_block(size: int) -> bool:
    return size >= 16 and not size & (size - 1)


def _check_finite(tensors: Weights, name: str, data: np.ndarray) -> None:
    if not np.isfinite(data).all():
        raise MNNError(f"{tensors.source}: the tensor '{name}' holds numbers that are not finite")


def calibrated_weights(
    config: Mapping[str, object], tensors: Weights, form: Form, tokens: Sequence[int], told: Told
) -> dict[str, QuantizedArray]:
    """All layers but the ends that are not of the form already, rounded for what the text has them multiply."""

    def made(name: str, moments: np.ndarray) -> QuantizedArray:
        data = np.ascontiguousarray(tensors[name].float32())
        _check_finite(tensors, name, data)
        return quantize_compensated(data, moments, form.bits, form.of(data.shape[1]), form.symmetric)

    matrices = [name for name in tensors if name.endswith(".weight") and len(tensors[name].shape) == 2]
    modules = {
        name.removesuffix(".weight")
        for name in matrices
        if not at_an_end(name) and form.kept(_row(tensors[name]).quantized(), form.bits) is None
    }
    return calibrated(config, LoadedWeights(tensors), modules, tokens, made, told)


def _in_rows(data: np.ndarray, bits: int, block: int, symmetric: bool) -> QuantizedArray:
    """Quantised some rows at a time, which bounds the memory."""
    parts = [quantize(data[i : i + CHUNK], bits, block, symmetric) for i in range(0, len(data), CHUNK)]
    width = max(part.width for part in parts)
    values = np.concatenate([part.values for part in parts])
    scale = np.concatenate([part.scale for part in parts])
    offset = None if symmetric else np.concatenate([part.offset for part in parts if part.offset is not None])
    found = QuantizedArray.of(values, scale, offset, bits, data.shape)
    assert found.width == width
    return found


__all__ = ["BITS", "BLOCK", "CHUNK", "Form", "FormedWeights", "Told", "calibrated_weights"]
