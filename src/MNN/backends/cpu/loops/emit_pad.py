"""Padding: a border around a tensor that is already inside it, or is copied there."""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

import numpy as np

from MNN.backends.base.program import Place, Ref
from MNN.backends.cpu.emission.emitter import Emitter
from MNN.backends.cpu.emission.handlers import emits
from MNN.backends.cpu.loops.emit_elementwise import GRAIN, emit_fill
from MNN.backends.cpu.loops.frame import FrameSpec
from MNN.compiler import strides as st
from MNN.compiler.fuse import Group
from MNN.ir import prims as p
from MNN.ir.dtype import DType
from MNN.ir.shape import elements
from MNN.ir.traced import maybe_nonzero, room_of


@emits(p.Pad)
def emit_pad(e: Emitter, group: Group) -> bool:
    """What takes the operand writes into the middle where it can; the border is filled around that."""
    prim = group.root
    assert isinstance(prim, p.Pad)
    source, out = prim.inputs[0], prim.outputs[0]
    place = e.output(out)
    inside = e.region(place, prim.low)
    current = e.place(source)
    if (current.buffer, current.offset) != (inside.buffer, inside.offset):
        e.copy(current, inside, source.shape, source.dtype)
    frame = None if out.dtype is DType.BF16X2 else _frame(out.shape, place.strides, prim.low, prim.high)
    if frame is None or 0 in out.shape:
        _emit_sides(e, prim, place)
    else:
        _emit_frame(e, *frame, prim.value, place, out.dtype)
    return True


class _Loop(NamedTuple):
    """A dimension, or several in one."""

    extent: int
    before: int
    behind: int
    """Of the extent, what is border."""
    stride: int

    @property
    def has_border(self) -> bool:
        return maybe_nonzero(self.before) or maybe_nonzero(self.behind)


def _frame(shape: st.Ints, strides: st.Ints, low: st.Ints, high: st.Ints) -> tuple[list[_Loop], int] | None:
    """The loops over a tensor, outermost first, when they have borders in the last two only, and the elements of the
    contiguous runs that these loops are over. There are two at least."""
    loops: list[_Loop] = []
    for axis in st.order_of(shape, strides):
        n, stride = shape[axis], strides[axis]
        bordered = maybe_nonzero(low[axis]) or maybe_nonzero(high[axis])
        if n == 1 and not bordered:  # where it is border alone, so is the whole tensor
            continue
        if loops and not bordered and st.continues(loops[-1].stride, n, stride):
            outer = loops.pop()
            loops.append(_Loop(outer.extent * n, outer.before * n, outer.behind * n, stride))
        else:
            loops.append(_Loop(n, low[axis], high[axis], stride))
    inner = loops[-1] if loops else _Loop(1, 0, 0, 0)
    run = loops.pop().extent if inner.stride == 1 and not inner.has_border else 1
    if inner.stride != 1 or not loops or any(loop.has_border for loop in loops[:-2]):
        return None
    return loops if len(loops) > 1 else [_Loop(1, 0, 0, 0), *loops], run


def _emit_frame(e: Emitter, loops: list[_Loop], run: int, value: float | int, place: Place, dtype: DType) -> None:
    """The whole border at once."""
    *batch, rows, cols = loops
    apart, border = cols.stride != 1, rows.before + rows.behind
    each = room_of((border * cols.extent + (rows.extent - border) * (cols.before + cols.behind)) * run)
    bands = max(1, -(-each // GRAIN))
    band = -(-room_of(rows.extent) // bands)
    args: dict[str, int | Ref] = {f"batch{d}": loop.extent for d, loop in enumerate(batch)}
    args |= {f"out_s{d}": loop.stride for d, loop in enumerate(batch)}
    args |= {
        "rows": rows.extent,
        "cols": cols.extent,
        "low": rows.before,
        "high": rows.behind,
        "left": cols.before,
        "right": cols.behind,
        "band": band,
        "value": _bits(value, math.copysign(1, value), dtype),
        "out": e.ref(place, dtype),
        "out_row": rows.stride,
    }
    args |= {"run": run, "out_col": cols.stride} if apart else {}
    blocks = elements([loop.extent for loop in batch]) * -(-rows.extent // band)
    e.command(FrameSpec.of(dtype.size, len(batch), apart), args, blocks, GRAIN // max(each, 1))


@functools.lru_cache(maxsize=256)
def _bits(value: float | int, sign: float, dtype: DType) -> int:
    """A number as it lies in memory; zeros of either ``sign`` are equal."""
    del sign
    with np.errstate(over="ignore"):
        return int(np.asarray(value).astype(dtype.numpy).reshape(1).view(f"i{dtype.size}")[0])


def _emit_sides(e: Emitter, prim: p.Pad, place: Place) -> None:
    """One border after the other."""
    source, out = prim.inputs[0], prim.outputs[0]
    done = list(out.shape)  # outer dimensions first: later borders only span what is left in the middle
    start = [0] * out.rank
    for axis in st.order_of(out.shape, place.strides):
        for amount, at in ((prim.low[axis], 0), (prim.high[axis], out.shape[axis] - prim.high[axis])):
            if amount:
                part = [amount if a == axis else n for a, n in enumerate(done)]
                begin = [at if a == axis else s for a, s in enumerate(start)]
                emit_fill(e, prim.value, e.region(place, begin), tuple(part), out.dtype)
        start[axis], done[axis] = prim.low[axis], source.shape[axis]
