"""Both sides of a contraction in types that kernels multiply."""

from __future__ import annotations

import numpy as np

from MNN.backends.cpu.emission.emitter import Emitter
from MNN.backends.cpu.loops.emit_elementwise import emit_nest
from MNN.backends.cpu.products.dot import DOT2, group_of
from MNN.backends.cpu.products.dot8 import DOT4, uses_int16_dot
from MNN.backends.cpu.targets.instructions import capability as can
from MNN.compiler.bodies import WIDE
from MNN.ir.dtype import DType
from MNN.ir.prims import Tensor
from MNN.ir.scalar import body_of

_FLOATS = (DType.F32, DType.F64, DType.F16, DType.BF16, DType.BF16X2)
MULTIPLIED = (*_FLOATS, DType.I8, DType.U8, DType.I16, DType.I32, DType.I64)
"""Element types that products are made of."""
_BYTES = (DType.I8, DType.U8, DType.I16)
"""Element types of constant weights that bytes are multiplied by."""


def multiplied(
    e: Emitter, x: Tensor, y: Tensor, simple: bool = True, rows: int = 0, in_pairs: bool = False
) -> tuple[Tensor, Tensor, int]:
    """Both sides in types that a kernel multiplies, and how many products it sums at once (1 unless ``simple``).

    ``rows`` of the left side make it worth preparing constant weights for them; ``in_pairs``: bytes are summed in pairs
    (:mod:`MNN.backends.cpu.packing.byte_pairs`)."""
    if x.dtype is DType.BF16X2:  # for tiles alone
        return x, _widened(e, y), 1
    if x.dtype is DType.F16 and e.precision == "low" and e.target.multiplies_f16:
        if y.const is not None:
            y = _halved(e, y)
        if y.dtype is DType.F16:
            return x, y, 1
    group = group_of(e.target, x.dtype)
    if y.const is not None and y.dtype is DType.F16:
        y = _widened(e, y)
    if group == DOT4:
        if simple and y.const is not None and y.dtype in _BYTES and uses_int16_dot(e.target, rows):
            return (x, y, DOT4) if in_pairs else (_converted(e, x, DType.I16), y, DOT2)
        if y.dtype is DType.I8 or (simple and y.const is not None and y.dtype in (DType.U8, DType.I16)):
            return x, y, group
        group = 1
    words = x.dtype is DType.I16 and y.const is not None and y.dtype is DType.I8
    if words and simple and e.target.can(can.PAIRS_I16):
        return x, y, DOT2
    if y.const is not None and y.dtype is DType.I16:
        y = _widened(e, y)
    if words:
        return _widened(e, x), y, 1
    rounded = y.const is not None and y.dtype is DType.F32 and x.dtype is DType.BF16
    if simple and group > 1 and (rounded or y.dtype is x.dtype):
        return x, y, group
    return _widened(e, x), _widened(e, y), 1


def _halved(e: Emitter, tensor: Tensor) -> Tensor:
    """A constant in f16, itself where its numbers do not fit."""
    data = tensor.const
    assert data is not None
    if tensor.dtype is not DType.F32 or not np.abs(data).max(initial=0) < float(np.finfo(np.float16).max):
        return tensor
    buffer = e.pool.get(("half", id(data)), lambda: data.astype(np.float16), (data, tensor.keep))
    return Tensor(DType.F16, tensor.shape, const=buffer.const, name=tensor.name, keep=buffer)


def _widened(e: Emitter, tensor: Tensor) -> Tensor:
    """f16 and bf16 operands are multiplied in f32: constants are converted once, others by a copy."""
    wide = {**WIDE, DType.I16: DType.I32}.get(tensor.dtype)
    if wide is None:
        return tensor
    if tensor.const is not None:
        data = tensor.const
        buffer = e.pool.get(("wide", id(data)), lambda: data.astype(wide.numpy), (data, tensor.keep))
        return Tensor(wide, tensor.shape, const=buffer.const, name=tensor.name, keep=buffer)
    return _converted(e, tensor, wide)


def _converted(e: Emitter, tensor: Tensor, wide: DType) -> Tensor:
    """A copy in another type."""
    copy = Tensor(wide, tensor.shape, name=tensor.name)
    order = e.order(tensor)
    e.assign(copy, e.allocate(wide, tensor.shape, order, roomy=True))
    body = body_of([tensor.dtype], lambda b, v: b.cast(v, wide))
    emit_nest(e, body, tensor.shape, [(tensor, e.place(tensor))], e.place(copy), wide)
    return copy
