"""Copies between arrays that lie in memory in different orders: by numpy, or by kernels for all sizes where that pays.

Where two arrays disagree about which axis is innermost, numpy walks one of them element by element. The kernels here
transpose in registers, a block at a time, and share large copies between threads."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from MNN.expr.fused.results import empty
from MNN.expr.fused.settings import SETTINGS

if TYPE_CHECKING:
    from MNN.backends.base.kernel import KernelSpec
    from MNN.expr.fused.kernels import LoopKernel

Array = np.ndarray
Ints = tuple[int, ...]

SMALLEST = 1 << 14
"""Elements up to which numpy is done before a kernel is found."""
PAYS_AFTER = 20e6
"""Bytes that numpy has copied in all before kernels are made, which takes as long as that."""
_BAND = 64
"""Columns that are transposed at a time: as many pages of the result are written in turns."""
_LONG = 8
"""Elements from which on a side of a matrix is worth being transposed in registers."""
_CHUNK = 1 << 14
"""Elements of a row that a thread takes at a time."""
_SIZES = (1, 2, 4, 8)


class _Plan(NamedTuple):
    """How arrays of certain sizes and strides are copied: by the kernel of ``spec`` with arguments of which those at
    ``source`` and ``target`` are the arrays' addresses, in so many blocks of which a thread takes ``grain``."""

    spec: KernelSpec
    arguments: tuple[int, ...]
    source: int
    target: int
    blocks: int
    grain: int


_copied = [0]


def copy(source: Array, target: Array) -> None:
    """Writes the numbers of ``source`` to ``target`` of the same shape and element type, which do not overlap."""
    count = source.size
    if count > SMALLEST and source.itemsize in _SIZES:
        if _copied[0] < PAYS_AFTER:
            _copied[0] += source.nbytes
        else:
            size = source.itemsize
            if source.flags.aligned and target.flags.aligned:
                plan = _plan(source.shape, _elements(source.strides, size), _elements(target.strides, size), size)
                if plan is not None:
                    _run(plan, source, target, count)
                    return
    target[...] = source


def contiguous(array: Array) -> Array:
    """The numbers of an array in row-major order: itself, or a copy."""
    return array if array.flags.c_contiguous else fresh(array)


def fresh(array: Array) -> Array:
    """A copy of an array in row-major order."""
    made = empty(array.shape, array.dtype)
    copy(array, made)
    return made


def owned(array: Array) -> Array:
    """A copy in row-major order, of any kind."""
    return array.copy() if array.flags.c_contiguous else fresh(array)


def joined(parts: Sequence[Array], axis: int) -> Array:
    """``numpy.concatenate`` of arrays of one element type, in row-major order. Raises ``ValueError`` for those that do
    not fit."""
    first = parts[0]
    if not -first.ndim <= axis < first.ndim:
        raise ValueError(f"axis {axis} is outside of {first.ndim} axes")
    axis %= first.ndim
    others = first.shape[:axis], first.shape[axis + 1 :]
    if any((part.shape[:axis], part.shape[axis + 1 :]) != others for part in parts):
        raise ValueError("arrays differ along another axis")
    length = sum([part.shape[axis] for part in parts])
    made = empty((*others[0], length, *others[1]), first.dtype)
    before: tuple[slice, ...] = (slice(None),) * axis
    at = 0
    for part in parts:
        end = at + part.shape[axis]
        place = (*before, slice(at, end))
        copy(part, made[place])
        at = end
    return made


def _elements(strides: Ints, size: int) -> Ints | None:
    """Strides in elements, where they are whole ones."""
    return None if any(s % size for s in strides) else tuple([s // size for s in strides])


@functools.lru_cache(maxsize=1024)
def _plan(shape: Ints, source: Ints | None, target: Ints | None, size: int) -> _Plan | None:
    """None where numpy is to do it."""
    from MNN.compiler import strides as st

    if source is None or target is None or not math.prod(shape):
        return None
    extents, (to, frm) = st.merge_loops(shape, [target, source], st.order_of(shape, target))
    last = len(extents) - 1
    if to[-1] != 1:
        return None
    inner = [a for a, s in enumerate(frm) if s == 1]
    if frm[-1] not in (0, 1) and inner and min(extents[inner[0]], extents[last]) >= _LONG:
        return _transposition(extents, to, frm, inner[0], size)
    return _rows(extents, to, frm, size)


def _transposition(extents: Ints, to: Ints, frm: Ints, j: int, size: int) -> _Plan:
    from MNN.backends.cpu.loops.transpose import TransposeSpec

    last = len(extents) - 1
    batch = [a for a in range(last) if a != j]
    rows, cols = extents[last], extents[j]
    band = min(_BAND, cols)
    outer = [extents[a] for a in batch]
    before, after = [*outer, rows, cols, band], [*(frm[a] for a in batch), frm[last]]
    arguments = (*before, 0, *after, 0, *(to[a] for a in batch), to[j])
    blocks = math.prod(outer) * -(-cols // band)
    at = len(before)
    spec = TransposeSpec(size, len(batch))
    return _Plan(spec, arguments, at, at + 1 + len(after), blocks, max(1, _CHUNK // (rows * band)))


def _rows(extents: Ints, to: Ints, frm: Ints, size: int) -> _Plan:
    from MNN.backends.cpu.loops.map_nest import MapSpec
    from MNN.ir.dtype import DType
    from MNN.ir.scalar import body_of

    kind = {1: DType.U8, 2: DType.U16, 4: DType.U32, 8: DType.U64}[size]
    by = str(frm[-1]) if frm[-1] in (0, 1) else "s"
    spec = MapSpec.of(body_of([kind], lambda b, x: x), len(extents), (by,), ("1",))
    inner = extents[-1]
    chunk = _CHUNK if inner > 2 * _CHUNK else inner
    before = [*extents, chunk]
    steps = frm if by == "s" else frm[:-1]
    blocks = math.prod(extents[:-1]) * -(-inner // chunk)
    at = len(before)
    arguments = (*before, 0, *steps, 0, *to[:-1])
    return _Plan(spec, arguments, at, at + 1 + len(steps), blocks, max(1, _CHUNK // chunk))


@functools.lru_cache(maxsize=256)
def _kernel(spec: KernelSpec) -> LoopKernel:
    from MNN.expr.fused.kernels import LoopKernel  # brings the compiler

    return LoopKernel(spec)


def _run(plan: _Plan, source: Array, target: Array, count: int) -> None:
    from MNN.expr.fused.kernels import SHARED, address

    values = list(plan.arguments)
    values[plan.source], values[plan.target] = address(source), address(target)
    kernel = _kernel(plan.spec)
    if SETTINGS.loop_threads == 1 or plan.blocks == 1 or count * 4 < SHARED:
        kernel.run(values, plan.blocks)
    else:
        kernel.share(values, plan.blocks, plan.grain, SETTINGS.loop_threads)


__all__ = ["contiguous", "copy", "fresh", "joined", "owned"]
