"""Products on AMX tiles in slices of their depth (:mod:`MNN.kernels.amx_slices`): the command that sums their results,
and applies the epilogue."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np

from MNN.compiler.emit.elementwise import strided_nest
from MNN.compiler.emit.side import Side
from MNN.compiler.emitter import Emitter
from MNN.compiler.program import Place
from MNN.ir.dtype import DType
from MNN.ir.scalar import Body, BodyBuilder

_STEPS = {"n": (0, 1), "m": (1, 0), "mn": (1, 1), "1": (0, 0)}
"""Whether operands of each kind change from row to row, and from column to column."""


def row_step(side: Side) -> int | None:
    """Elements from each of its rows to the next, None where they are not evenly apart."""
    rows = side.rows
    if rows is None or rows.size < 2:
        return 0
    step = int(rows[1]) - int(rows[0])
    return step if (np.diff(rows) == step).all() else None


def can_sum(c: Side, operands: Sequence[tuple[str, Side]]) -> bool:
    """Whether rows of the result and of its operands are evenly apart."""
    return all(row_step(side) is not None for side in (c, *(s for _, s in operands)))


def emit_sum(
    e: Emitter, slices: Sequence[Place], c: Side, operands: Sequence[tuple[str, Side]], body: Body | None, n: int
) -> None:
    """Stores ``body`` of the slices' sum, and of the operands, as ``n`` columns of ``c``. ``slices``: ``[rows, n]``."""
    assert c.rows is not None
    places, strides, refs = list(slices), [place.strides for place in slices], []
    for kind, side in operands:
        down, across = _STEPS[kind]
        places.append(_first(side))
        strides.append((down * (row_step(side) or 0), across))
    types = [*[DType.F32] * len(slices), *(side.dtype for _, side in operands)]
    refs = [e.ref(place, dtype) for place, dtype in zip(places, types, strict=True)]
    to = _first(c)._replace(strides=(row_step(c) or n, 1))
    summed = _summed(len(slices), body, c.dtype, tuple(types[len(slices) :]))
    strided_nest(e, summed, (c.rows.size, n), strides, refs, to, c.dtype)


def _first(side: Side) -> Place:
    """Where its first row begins."""
    row = 0 if side.rows is None else int(side.rows[0])
    return side.place._replace(offset=side.place.offset + row + int(side.batch[0]))


@functools.lru_cache(maxsize=256)
def _summed(slices: int, body: Body | None, out: DType, operands: tuple[DType, ...]) -> Body:
    b = BodyBuilder()
    parts = [b.arg(DType.F32) for _ in range(slices)]
    others = [b.arg(dtype) for dtype in operands]
    total = functools.reduce(lambda x, y: b("add", x, y), parts)
    return b.build(b.cast(total, out) if body is None else b.inline(body, [total, *others])[0])
