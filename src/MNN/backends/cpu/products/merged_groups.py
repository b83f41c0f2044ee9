"""Convolutions in small groups of channels, several groups together so that vectors are full.

With fewer channels in a group than a vector has lanes, each group's sums fill a part of a vector only. Neighbouring
groups become one whose weights are zero where a channel of one group would meet another's: as many multiply-adds, for
what instructions sum at once is no more than before, and a part of the epilogues. Integers only: a product of zero and
an infinite number would be none.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from MNN.backends.cpu.emission.emitter import Emitter
from MNN.ir.dtype import DType
from MNN.ir.prims import Tensor

_INTEGERS = (DType.I8, DType.U8, DType.I16)
_LINE = 64
"""Bytes of a line."""


def merged(e: Emitter, x: Tensor, w: Tensor, groups: int) -> tuple[Tensor, int]:
    """Weights ``[O, I / groups, kernel...]`` and the number of groups, of as many groups as make vectors full."""
    data = w.const
    if groups == 1 or data is None or x.dtype not in _INTEGERS or w.dtype not in _INTEGERS:
        return w, groups
    return _merged(e, w, groups, e.target.lanes(DType.I32) // (w.shape[0] // groups))


def merged_lines(e: Emitter, x: Tensor, w: Tensor, groups: int) -> tuple[Tensor, int]:
    """The same, of as many groups as have their channels of ``x`` in a line of memory, and fill one at most."""
    count = _LINE // x.dtype.size // max(w.shape[1], w.shape[0] // groups)
    return _merged(e, w, groups, count)


def merged_columns(e: Emitter, w: Tensor, groups: int, columns: int) -> Tensor | None:
    """Weights of as many groups at once as give so many ``columns``; None where groups do not come out even."""
    count, rest = divmod(columns * groups, w.shape[0])
    if rest or not count or groups % count or (count > 1 and w.const is None):
        return None
    return _joined(e, w, groups, count)


def _merged(e: Emitter, w: Tensor, groups: int, most: int) -> tuple[Tensor, int]:
    count = max((f for f in range(1, most + 1) if groups % f == 0), default=1)
    return (w, groups) if w.const is None else (_joined(e, w, groups, count), groups // count)


def _joined(e: Emitter, w: Tensor, groups: int, count: int) -> Tensor:
    """Weights ``[O, count * I / groups, kernel...]``."""
    data = w.const
    if count == 1 or data is None:
        return w
    key = ("merged groups", id(data), groups, count)
    buffer = e.pool.get(key, lambda: block_diagonal(data, groups, count), (data, w.keep))
    shape = (w.shape[0], w.shape[1] * count, *w.shape[2:])
    return Tensor(w.dtype, shape, const=buffer.const, name=w.name, keep=buffer)


def block_diagonal(weights: npt.NDArray[np.generic], groups: int, count: int) -> npt.NDArray[np.generic]:
    """Weights ``[O, I / groups, kernel...]`` as ``[O, count * I / groups, kernel...]`` of fewer groups."""
    out, per_in, *kernel = weights.shape
    per_out = out // groups
    parts = weights.reshape(groups // count, count, per_out, per_in, *kernel)
    wide = np.zeros((groups // count, count, per_out, count, per_in, *kernel), weights.dtype)
    for i in range(count):
        wide[:, i, :, i] = parts[:, i]
    return wide.reshape(out, count * per_in, *kernel)


__all__ = ["block_diagonal", "merged", "merged_columns", "merged_lines"]
