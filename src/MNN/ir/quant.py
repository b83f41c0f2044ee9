"""Weights kept as small integers with scales."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class QuantizedArray:
    """``bits``-bit integers that stand for floats: ``w = values * scale + offset`` per block of a row.

    ``values``: int8, shape ``[rows, cols]``; ``scale`` and ``offset``: float32 ``[rows, blocks]`` (``offset`` is None
    when symmetric), where every block covers ``cols / blocks`` neighbouring columns. ``shape`` is the logical shape, of
    which the first dimension is ``rows``.
    """

    values: np.ndarray
    scale: np.ndarray
    offset: np.ndarray | None
    bits: int
    shape: tuple[int, ...]

    def dequantize(self) -> np.ndarray:
        """The float32 array of the logical shape."""
        rows, cols = self.values.shape
        blocks = self.scale.shape[1]
        wide = self.values.reshape(rows, blocks, cols // max(blocks, 1)).astype(np.float32)
        with np.errstate(all="ignore"):  # a file may hold any scale
            out: np.ndarray = wide * self.scale[:, :, None]
            if self.offset is not None:
                out += self.offset[:, :, None]
        return out.reshape(self.shape)
