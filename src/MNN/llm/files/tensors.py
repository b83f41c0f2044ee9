"""Tensors of a model file that are read when they are asked for."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from MNN.errors import FormatError
from MNN.ir.quant import QuantizedArray

Array = np.ndarray[Any, np.dtype[Any]]
Rows = slice | Array
"""Which rows of a matrix, and in which order: a slice or int64 ``[n]``."""
CHUNK = 1 << 22
"""Numbers that are decoded at once, which bounds what is needed beside the result."""


class WeightTensor(ABC):
    """One tensor of a file. Nothing is read before a method is called; what is read is not kept.

    ``shape``: the logical shape, rows first. ``dtype``: what :meth:`numpy` gives. ``format``: the file's name for how
    the numbers are stored (``F32``, ``BF16``, ``Q4_K``, ``GPTQ``).
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    format: str

    @abstractmethod
    def numpy(self) -> Array:
        """All numbers in ``dtype``: the file's own for plain tensors (perhaps in the map, read-only), else float32."""

    @abstractmethod
    def take(self, rows: Rows, shape: tuple[int, ...]) -> WeightTensor:
        """Some rows, or rows in another order, as a tensor of ``shape``.

        Rows are what lies along the last dimension; a tensor of one dimension has rows of one number.
        """

    def quantized(self) -> QuantizedArray | None:
        """The numbers as low-bit weights, exactly as the file has them; None where it has floats."""
        return None

    def float32(self) -> Array:
        """All numbers as float32."""
        return self.numpy().astype(np.float32, copy=False)

    def rows(self, index: Array) -> Array:
        """The rows of a matrix with these numbers as float32 ``[n, cols]``: a look-up that reads nothing else."""
        return self.take(np.asarray(index, np.int64), (len(index), self.shape[-1])).float32()

    def plus(self, amount: float) -> WeightTensor:
        """The tensor with a number added to each of its elements."""
        return ShiftedTensor(self, amount)

    @property
    def size(self) -> int:
        """How many numbers there are."""
        return count(self.shape)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.format}, {list(self.shape)})"


class PlainTensor(WeightTensor):
    """Numbers as processors have them. ``raw``: uint8 ``[rows, bytes of a row]``."""

    def __init__(
        self, raw: Array, dtype: np.dtype[Any], shape: tuple[int, ...], format: str, rows: Rows | None = None
    ) -> None:
        self.shape, self.dtype, self.format = shape, dtype, format
        self._raw, self._rows = raw, rows

    @classmethod
    def of(cls, data: Array, dtype: np.dtype[Any], shape: tuple[int, ...], format: str) -> PlainTensor:
        """From the bytes of a tensor, uint8 ``[n]``."""
        width = (shape[-1] if len(shape) > 1 else 1) * dtype.itemsize
        return cls(data.reshape(-1, width) if width else data.reshape(0, 0), dtype, shape, format)

    def numpy(self) -> Array:
        chosen = self._raw if self._rows is None else self._raw[self._rows]
        flat = chosen.reshape(-1)
        if flat.size == 0:
            return np.zeros(self.shape, self.dtype)
        return flat.view(self.dtype).reshape(self.shape)

    def take(self, rows: Rows, shape: tuple[int, ...]) -> PlainTensor:
        return PlainTensor(self._raw, self.dtype, shape, self.format, chosen(self._rows, rows))


class ShiftedTensor(WeightTensor):
    """Another tensor plus a number, in float32."""

    def __init__(self, base: WeightTensor, amount: float) -> None:
        self.shape, self.dtype, self.format = base.shape, np.dtype(np.float32), base.format
        self._base, self._amount = base, amount

    def numpy(self) -> Array:
        return np.asarray(self._base.float32() + np.float32(self._amount))

    def take(self, rows: Rows, shape: tuple[int, ...]) -> ShiftedTensor:
        return ShiftedTensor(self._base.take(rows, shape), self._amount)


class Weights(Mapping[str, WeightTensor]):
    """Tensors by name. ``source``: the file or folder they are from, for messages. ``altered``: a pattern of the names
    of those whose numbers are others than the checkpoint's, or lie in another order."""

    def __init__(self, tensors: dict[str, WeightTensor], source: str, altered: str = "") -> None:
        self.source, self.altered = source, altered
        self._tensors = tensors

    def __getitem__(self, name: str) -> WeightTensor:
        try:
            return self._tensors[name]
        except KeyError:
            raise MissingTensorError(f"{self.source} has no tensor {name!r}{self._alike(name)}") from None

    def __contains__(self, name: object) -> bool:
        """Without the search for names that are alike, which a file with thousands of them would take seconds for."""
        return name in self._tensors

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)

    def _alike(self, name: str) -> str:
        import difflib

        alike = difflib.get_close_matches(name, self._tensors, 1)
        return f"; it has {alike[0]!r}" if alike else f"; it has {len(self)} others"


class MissingTensorError(FormatError, KeyError):
    """Names that a file lacks: a FormatError for users, a KeyError for what a Mapping is."""

    def __str__(self) -> str:
        return str(self.args[0])


def chosen(rows: Rows | None, among: Rows) -> Rows:
    """Rows of rows."""
    if rows is None:
        return among
    if isinstance(rows, slice):
        rows = np.arange(rows.start or 0, rows.stop, rows.step or 1)
    result: Array = rows[among]
    return result


def count(shape: tuple[int, ...]) -> int:
    """The product of the sizes."""
    total = 1
    for n in shape:
        total *= n
    return total
