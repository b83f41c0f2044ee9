"""Weights kept as small integers with scales."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

WIDTHS = (2, 4, 8)
"""Bits that a code may take in memory."""
FEWEST_ROW_BITS, COARSE_ROW_BITS = 8, 10
ROW_BITS = FEWEST_ROW_BITS, COARSE_ROW_BITS, 12
"""What rows that are multiplied may be rounded to; with 10, blocks of small numbers of many rows to 8, others to 12."""


@dataclass(frozen=True, eq=False)
class QuantizedArray:
    """``bits``-bit integers that stand for floats: ``w = value * scale + offset`` per block of a row.

    ``codes``: uint8 ``[rows, ceil(cols * width / 8)]``, each value plus ``2^(width - 1)`` in ``width`` bits, the first
    in the lowest bits of a byte. ``scale`` and ``offset``: float32 ``[rows, blocks]`` (``offset`` is None when
    symmetric), where every block covers ``cols / blocks`` neighbouring columns. ``shape`` is the logical shape, whose
    first dimension is ``rows``. ``bits`` is what the values are said to have in files. ``row_bits``: products may
    round what they multiply it by to so many bits (:data:`ROW_BITS`), each block with a scale of its own, and, with 10
    or fewer, scales and offsets of 4 bits or fewer to f16; with 0 they may not. ``finite_rows``: what they multiply it
    by is finite, unless the whole result is lost: where it is not, products need not tell infinities from NaN.
    """

    codes: np.ndarray
    scale: np.ndarray
    offset: np.ndarray | None
    bits: int
    shape: tuple[int, ...]
    width: int
    row_bits: int = 0
    finite_rows: bool = False

    @classmethod
    def of(
        cls, values: np.ndarray, scale: np.ndarray, offset: np.ndarray | None, bits: int, shape: tuple[int, ...]
    ) -> QuantizedArray:
        """From int8 ``values`` ``[rows, cols]``, in as few bits as they take."""
        low, high = int(values.min(initial=0)), int(values.max(initial=0))
        width = next(w for w in WIDTHS if -(1 << (w - 1)) <= low and high < 1 << (w - 1))
        return cls(pack_codes(values, width), scale, offset, bits, shape, width)

    @property
    def cols(self) -> int:
        """Numbers of a row."""
        count = 1
        for n in self.shape[1:]:
            count *= n
        return count

    @property
    def values(self) -> np.ndarray:
        """The integers as int8 ``[rows, cols]``, made anew."""
        shifts = np.arange(0, 8, self.width, dtype=np.uint8)
        wide = (self.codes[:, :, None] >> shifts) & np.uint8((1 << self.width) - 1)
        flat = wide.reshape(self.codes.shape[0], -1)[:, : self.cols]
        return (flat ^ np.uint8(1 << (self.width - 1))).view(np.int8) if self.width == 8 else self._signed(flat)

    def _signed(self, flat: np.ndarray) -> np.ndarray:
        signed: np.ndarray = flat.view(np.int8) - np.int8(1 << (self.width - 1))
        return signed

    def dequantize(self) -> np.ndarray:
        """The float32 array of the logical shape."""
        values, blocks = self.values, self.scale.shape[1]
        rows, cols = values.shape
        wide = values.reshape(rows, blocks, cols // max(blocks, 1)).astype(np.float32)
        with np.errstate(all="ignore"):  # a file may hold any scale
            wide *= self.scale[:, :, None]
            if self.offset is not None:
                wide += self.offset[:, :, None]
        return wide.reshape(self.shape)


def pack_codes(values: np.ndarray, width: int) -> np.ndarray:
    """int8 ``[rows, cols]`` as the codes of :class:`QuantizedArray`; rows are filled up to whole bytes."""
    rows, cols = values.shape
    per = 8 // width
    codes = np.zeros((rows, -(-cols // per) * per), np.uint8)
    codes[:, :cols] = (values.view(np.uint8) ^ np.uint8(1 << (width - 1))) & np.uint8((1 << width) - 1)
    if per == 1:
        return codes
    packed: np.ndarray = codes[:, 0::per].copy()
    for i in range(1, per):
        packed |= codes[:, i::per] << np.uint8(width * i)
    return packed
