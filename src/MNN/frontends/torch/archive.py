"""PyTorch's files as zip archives: tensors left where they lie in the file."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence

import numpy as np

from MNN.errors import FormatError
from MNN.frontends.common.zip_archive import ZipArchive
from MNN.ir.dtype import DType

MAX_COPIED = 256 << 20
"""Bytes of tensors that are stored in another order, besides four times the file."""
MAX_RANK = 32


class Archive(ZipArchive):
    """A zip archive of one folder, as PyTorch writes it."""

    format_name = "PyTorch"

    def __init__(self, source: str | os.PathLike[str] | bytes) -> None:
        super().__init__(source)
        self._copied = 0

    def check_byte_order(self) -> None:
        """Raises :class:`FormatError` for files of machines with the other order of bytes."""
        if self.has("byteorder") and self.read("byteorder", 16) not in (b"little", b""):
            raise FormatError(
                f"{self.name} was written on a machine with another order of bytes; export it on this one"
            )

    def tensor(
        self, data: memoryview, dtype: DType, sizes: Sequence[int], strides: Sequence[int], offset: int, where: str
    ) -> np.ndarray:
        """A tensor upon the bytes of its memory: sizes, strides and offset in elements. It stays in the file where it
        is contiguous. Raises :class:`FormatError` where they make no sense, or reach beyond the memory."""
        item = dtype.numpy.itemsize
        plain = all(type(n) is int and 0 <= n < 1 << 48 for n in (*sizes, *strides, offset))
        if not plain or len(sizes) != len(strides) or len(sizes) > MAX_RANK:
            raise FormatError(
                f"{where}: sizes {list(sizes)}, strides {list(strides)} and offset {offset} make no tensor"
            )
        count = math.prod(sizes)
        if count == 0:
            return np.zeros(tuple(sizes), dtype.numpy)
        last = offset + sum((n - 1) * s for n, s in zip(sizes, strides, strict=True))
        if (last + 1) * item > len(data):
            raise FormatError(
                f"{where}: sizes {list(sizes)} with strides {list(strides)} from {offset} on reach beyond the "
                f"{len(data)} bytes of its memory; is the file damaged?"
            )
        flat = np.frombuffer(data, np.uint8, (last + 1 - offset) * item, offset * item)
        if dtype is DType.BOOL and flat.max(initial=0) > 1:
            raise FormatError(f"{where}: it holds bytes that are no booleans; is the file damaged?")
        typed = flat.view(dtype.numpy)
        if _contiguous(sizes, strides):
            return typed.reshape(tuple(sizes))
        self._copied += count * item
        if self._copied > MAX_COPIED + 4 * len(self._data):
            raise FormatError(f"{where}: sizes {list(sizes)} repeat what is stored too often; is the file damaged?")
        steps = tuple(s * item for s in strides)
        return np.ascontiguousarray(np.lib.stride_tricks.as_strided(typed, tuple(sizes), steps, writeable=False))


def _contiguous(sizes: Sequence[int], strides: Sequence[int]) -> bool:
    step = 1
    for n, s in zip(reversed(sizes), reversed(strides), strict=True):
        if n != 1 and s != step:
            return False
        step *= n
    return True
