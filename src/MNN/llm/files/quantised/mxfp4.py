"""Experts in 4-bit floats as gpt-oss' checkpoints have them: two numbers in a byte, the lower half first, and an
exponent for each 32 (OCP Microscaling Formats 1.0)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from MNN.errors import FormatError
from MNN.ir.quant import QuantizedArray
from MNN.llm.files.gguf.small_blocks import FP4_VALUES
from MNN.llm.files.tensors import Rows, WeightTensor, chosen, count

Array = np.ndarray[Any, np.dtype[Any]]
METHOD = "mxfp4"
TURNED = ".turned"
"""Behind the name of a stack of matrices ``[out, in]`` whose checkpoints in floats are ``[in, out]``."""
_BLOCK = 32


class MicroscaledTensor(WeightTensor):
    """Matrices ``[out, in]`` of all experts, one above the other. ``blocks``: uint8 ``[experts, out, in / 32, 16]``,
    ``scales``: uint8 ``[experts, out, in / 32]``."""

    def __init__(self, blocks: WeightTensor, scales: WeightTensor, name: str, rows: Rows | None = None) -> None:
        whole = (*scales.shape, _BLOCK // 2)
        if blocks.shape != whole or len(whole) != 4 or blocks.dtype != np.uint8 or scales.dtype != np.uint8:
            raise FormatError(
                f"tensor {name!r}: blocks {list(blocks.shape)} and scales {list(scales.shape)} make no experts of "
                "4-bit floats"
            )
        self._blocks, self._scales, self._name, self._rows = blocks, scales, name, rows
        self.shape = (count(whole[:2]), whole[2] * _BLOCK)
        self.dtype, self.format = np.dtype(np.float32), "MXFP4"

    def take(self, rows: Rows, shape: tuple[int, ...]) -> MicroscaledTensor:
        taken = MicroscaledTensor(self._blocks, self._scales, self._name, chosen(self._rows, rows))
        taken.shape = shape
        return taken

    def numpy(self) -> Array:
        return self.quantized().dequantize().reshape(self.shape)

    def quantized(self) -> QuantizedArray:
        """The levels, doubled, as integers; no number is rounded."""
        rows: Rows = slice(None) if self._rows is None else self._rows
        total, width = count(self._scales.shape[:2]), self.shape[-1]
        data = self._blocks.numpy().reshape(total, -1)[rows]
        codes = np.stack([data & np.uint8(15), data >> np.uint8(4)], axis=-1).reshape(len(data), width)
        exponent = self._scales.numpy().reshape(total, -1)[rows].astype(np.int32) - 128
        scale = np.ldexp(np.float32(1), exponent).astype(np.float32)
        return QuantizedArray.of(FP4_VALUES[codes], scale, None, 8, (len(data), width))


def unite(tensors: Mapping[str, WeightTensor]) -> dict[str, WeightTensor]:
    """The same tensors with ``X_blocks`` and ``X_scales`` as one ``X.turned``. FormatError where one is missing."""
    found: dict[str, WeightTensor] = {}
    for name, tensor in tensors.items():
        base = name.removesuffix("_blocks").removesuffix("_scales")
        if base == name:
            found[name] = tensor
        elif name.endswith("_blocks"):
            if f"{base}_scales" not in tensors:
                raise FormatError(f"the checkpoint lacks the tensor '{base}_scales'")
            found[base + TURNED] = MicroscaledTensor(tensor, tensors[f"{base}_scales"], name)
    return found


__all__ = ["METHOD", "TURNED", "MicroscaledTensor", "unite"]
