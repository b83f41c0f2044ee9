"""Products on AMX tiles in slices of their depth (:mod:`MNN.backends.cpu.amx.slices`): the command that sums their
results, and applies the epilogue."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np

from MNN.backends.base.program import Place
from MNN.backends.cpu.emission.emitter import Emitter
from MNN.backends.cpu.loops.emit_elementwise import strided_nest
from MNN.backends.cpu.products.emit_epilogue import Epilogue
from MNN.backends.cpu.products.operand_access import OperandAccess
from MNN.ir.dtype import DType
from MNN.ir.scalar import Body, BodyBuilder


def can_sum(c: OperandAccess, epilogue: Epilogue) -> bool:
    """Whether rows of the result and of its operands are evenly apart, along lines at least (within a border)."""
    sides = [c, *epilogue.sides]
    return all(side.dtype is not DType.BF16X2 for side in sides) and _row_steps(sides) is not None


def emit_sum(e: Emitter, slices: Sequence[Place], c: OperandAccess, epilogue: Epilogue, n: int) -> None:
    """Stores what the ``epilogue`` makes of the slices' sum as ``n`` columns of ``c``. ``slices``: ``[rows, n]``."""
    operands = epilogue.sides
    found = _row_steps([c, *operands])
    assert found is not None
    line, ((down, across), *others) = found
    places = [*slices, *map(_first, operands)]
    strides = [(line * n, n, 1) for _ in slices]
    strides += [(*steps, int("n" in kind)) for kind, steps in zip(epilogue.kinds, others, strict=True)]
    types = [*[DType.F32] * len(slices), *(side.dtype for side in operands)]
    refs = [e.ref(place, dtype) for place, dtype in zip(places, types, strict=True)]
    to = _first(c)._replace(strides=(down, across, 1))
    summed = _summed(len(slices), epilogue.body, c.dtype, tuple(types[len(slices) :]))
    strided_nest(e, summed, (c.table.size // line, line, n), strides, refs, to, c.dtype)


def _row_steps(sides: Sequence[OperandAccess]) -> tuple[int, list[tuple[int, int]]] | None:
    """How many rows are a line; from line to line, and from row to row, so many elements of each side. None where rows
    are not so."""
    tables = [np.zeros(1, np.int64) if side.rows is None else side.rows for side in sides]
    line = min([_evenly(rows) for rows in tables if rows.size > 1], default=1)
    found = []
    for rows in tables:
        if rows.size % line and rows.size > 1:
            return None
        grid = rows.reshape(-1, line if rows.size > 1 else 1)
        down = int(grid[1, 0] - grid[0, 0]) if grid.shape[0] > 1 else 0
        across = int(grid[0, 1] - grid[0, 0]) if grid.shape[1] > 1 else 0
        first, second = np.ogrid[: grid.shape[0], : grid.shape[1]]
        if (grid != grid[0, 0] + first * down + second * across).any():
            return None
        found.append((down, across))
    return line, found


def _evenly(rows: np.ndarray) -> int:
    """How many of the first rows are evenly apart."""
    return int(np.argmax(np.diff(rows, append=2 * rows[0] - rows[1] - 1) != rows[1] - rows[0])) + 1


def _first(side: OperandAccess) -> Place:
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
