"""Matrices of small integers as checkpoints of several quantisers have them."""

from __future__ import annotations

from abc import abstractmethod
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np

from MNN.errors import FormatError
from MNN.ir.quant import QuantizedArray
from MNN.llm.files.tensors import Rows, WeightTensor, chosen

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class Groups:
    """``(codes - zero) * scale + offset`` for neighbours of a row: ``codes`` int8 or uint8 ``[rows, in]``, the others
    f32 ``[rows, groups]``."""

    codes: Array
    scale: Array
    zero: Array | None = None
    offset: Array | None = None


class GroupedTensor(WeightTensor):
    """A matrix ``[out, in]`` of ``bits``-bit integers, of which neighbours along the inputs share a scale."""

    def __init__(self, name: str, shape: tuple[int, int], bits: int, format: str) -> None:
        self.name, self.shape, self.bits, self.format = name, shape, bits, format
        self.dtype = np.dtype(np.float32)
        self._rows: Rows | None = None

    @abstractmethod
    def _read(self, rows: Rows) -> Groups:
        """These rows of the matrix."""

    def take(self, rows: Rows, shape: tuple[int, ...]) -> GroupedTensor:
        taken = copy(self)
        taken._rows, taken.shape = chosen(self._rows, rows), shape
        return taken

    def numpy(self) -> Array:
        held = self._held()
        wide = held.codes.reshape(*held.scale.shape, -1).astype(np.float32)
        with np.errstate(all="ignore"):  # a file may hold any scale
            if held.zero is not None:
                wide -= held.zero[:, :, None]
            wide *= held.scale[:, :, None]
            if held.offset is not None:
                wide += held.offset[:, :, None]
        return wide.reshape(self.shape)

    def quantized(self) -> QuantizedArray | None:
        """As low-bit weights, exactly as the file has them."""
        held, half = self._held(), 0
        codes = held.codes
        if codes.dtype == np.uint8:
            half = 1 << (self.bits - 1)
            codes = (codes.astype(np.int16) - np.int16(half)).astype(np.int8)
        with np.errstate(all="ignore"):
            offset = held.offset
            if half or (held.zero is not None and held.zero.any()):
                moved = np.float32(half) - (np.float32(0) if held.zero is None else held.zero)
                offset = moved * held.scale if offset is None else moved * held.scale + offset
        return QuantizedArray.of(codes, held.scale, offset, self.bits, codes.shape)

    def _held(self) -> Groups:
        return self._read(slice(None) if self._rows is None else self._rows)


def wrong(name: str, what: str, *parts: WeightTensor) -> FormatError:
    """The error of a tensor whose parts do not fit."""
    return FormatError(f"tensor {name!r} {what}: its parts have the shapes {[list(part.shape) for part in parts]}")


def halves(data: Array, high_first: bool = False) -> Array:
    """Bytes ``[..., n]`` as the two halves of each, uint8 ``[..., 2 n]``; the lower ones come first unless
    ``high_first``."""
    low, high = data & np.uint8(15), data >> np.uint8(4)
    pair = (high, low) if high_first else (low, high)
    return np.stack(pair, axis=-1).reshape(*data.shape[:-1], -1)


__all__ = ["Array", "GroupedTensor", "Groups", "halves", "wrong"]
