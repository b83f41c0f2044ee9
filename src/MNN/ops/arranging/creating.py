"""Operators that make tensors from shapes and numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from MNN.errors import ShapeError
from MNN.ir import symbolic
from MNN.ir.dtype import DType
from MNN.ir.graph import Node
from MNN.ir.prims import Tensor
from MNN.ir.shape import elements
from MNN.ir.traced import room_of
from MNN.ops.core.base import Operator, register
from MNN.ops.core.builder import MAX_ELEMENTS, Builder
from MNN.ops.core.common import agree
from MNN.ops.core.datatypes import from_data_type
from MNN.ops.core.operands import operand, optional
from MNN.ops.core.traced_folding import MOST
from MNN.ops.inference import infer


def checked_shape(b: Builder, dims: Sequence[int]) -> tuple[int, ...]:
    """Sizes that were computed by the model. Raises :class:`ShapeError` for negative or absurd ones."""
    if any(d < 0 for d in dims) or elements(dims) > MAX_ELEMENTS:
        raise ShapeError(f"{b.where}: {list(dims)} is no shape of a tensor")
    return tuple(dims)


def iota(b: Builder, size: int, dtype: DType = DType.I64) -> Tensor:
    """``0, 1, ..., size - 1``."""
    if size < 0:
        raise ShapeError(f"{b.where}: counting to {size} is not possible")
    b.require(size, f"counting to {size}")
    return b.const(np.arange(size), dtype)


@register("Fill")
class Fill(Operator):
    """A tensor of the shape in the first operand, full of the number in the second."""

    sizes_from = 0

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        dims = checked_shape(b, b.ints(operand(b, inputs, 0), "the shape"))
        value = operand(b, inputs, 1)
        if elements(value.shape) != 1:
            raise ShapeError(f"{b.where}: the value must be one number, found {list(value.shape)}")
        return [b.expand(b.reshape(value, ()), dims)]


@register("ZerosLike")
class ZerosLike(Operator):
    """Zeros of the operand's shape and dtype."""

    keeps_shape = True

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        x = operand(b, inputs, 0)
        return [b.expand(b.like(0, x), x.shape)]


@register("Range")
class Range(Operator):
    """start, limit, delta: ``start + i * delta`` up to the limit (exclusive)."""

    sizes_from = 0
    attributes = {"Tidx": "DT_INVALID"}

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        start, limit, delta = agree(b, *[operand(b, inputs, i) for i in range(3)])
        first, last, step = (b.value(t, "a bound of the range").reshape(-1) for t in (start, limit, delta))
        if not first.size == last.size == step.size == 1:
            raise ShapeError(f"{b.where}: start, limit and delta must be single numbers")
        a, z, d = (v[0].item() if not start.dtype.is_float else float(v[0]) for v in (first, last, step))
        if any(t.sizes is not None for t in (start, limit, delta)):
            (a,), (z,), (d,) = (b.ints(t) for t in (start, limit, delta))
        if d == 0 or not all(math.isfinite(v) for v in (a, z, d)):
            raise ShapeError(f"{b.where}: a range from {a} to {z} by {d} never ends")
        count = -(-(z - a) // d) if isinstance(a, int) else math.ceil((z - a) / d)
        size = max(int(count), 0)
        b.require(size, f"a range of {size}")
        dtype = start.dtype
        if start.sizes is not None:
            begin, steps = b.reshape(start, ()), b.const(np.arange(size) * int(d), dtype)
            if isinstance(count, int) and room_of(count) > MOST:  # numbers that would be followed at small sizes only
                begin = b.open_numbers.input_for(begin)
                steps = Tensor(dtype, (count,), const=steps.const)
            return [b.op("add", steps, begin)]
        if dtype.is_int:
            return [b.const(a + np.arange(size) * d, dtype)]
        wide = np.dtype(np.float32) if dtype in (DType.F16, DType.BF16) else dtype.numpy
        return [b.const(np.asarray(a, wide) + np.arange(size).astype(wide) * np.asarray(d, wide), dtype)]


@register("LinSpace")
class LinSpace(Operator):
    """start, stop, count: evenly spaced numbers, both ends included."""

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        start, stop = agree(b, operand(b, inputs, 0), operand(b, inputs, 1))
        (count,) = checked_shape(b, b.ints(operand(b, inputs, 2), "the count"))
        steps = b.cast(iota(b, count), start.dtype)
        span = b.op("div", b.op("sub", stop, start), b.like(max(count - 1, 1), start))
        return [b.op("add", b.reshape(start, ()), b.op("mul", steps, b.reshape(span, ())))]


@register("EyeLike")
class EyeLike(Operator):
    """Ones on diagonal k (second operand), zeros elsewhere, shaped like the first; its dtype or ``outputDataType``."""

    attributes = {"outputDataType": "DT_INVALID"}

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        x, diagonal = operand(b, inputs, 0), optional(inputs, 1)
        if x.rank != 2:
            raise ShapeError(f"{b.where}: needs a matrix, found {list(x.shape)}")
        name = self.str_attr(node, "outputDataType")
        dtype = x.dtype if name == "DT_INVALID" else from_data_type(name, b.where)
        k = b.ints(diagonal, "the diagonal")[0] if diagonal is not None else 0
        return [b.cast(band(b, x.shape, "eq", k), dtype)]


def band(b: Builder, shape: Sequence[int], compare: str, k: int) -> Tensor:
    """A boolean matrix that is true where ``column - row`` compares with ``k``."""
    rows = b.reshape(iota(b, shape[-2]), (shape[-2], 1))
    return b.map(
        lambda s, r, c: s(compare, s("sub", c, r), s.const(k, DType.I64)), rows, b.reshape(iota(b, shape[-1]), (1, -1))
    )


@register("Trilu")
class Trilu(Operator):
    """The upper or lower triangle of the last two axes from diagonal k (second operand) on; zeros elsewhere."""

    keeps_shape = True
    in_mnn = False
    attributes = {"upper": True}

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        x, diagonal = operand(b, inputs, 0), optional(inputs, 1)
        if x.rank < 2:
            raise ShapeError(f"{b.where}: needs a matrix, found {list(x.shape)}")
        ks = b.ints(diagonal, "the diagonal") if diagonal is not None else (0,)
        kept = band(b, x.shape, "ge" if self.bool_attr(node, "upper") else "le", ks[0] if ks else 0)
        return [b.op("select", kept, x, b.like(0, x))]


@register("MatrixBandPart")
class MatrixBandPart(Operator):
    """Keeps ``lower`` subdiagonals and ``upper`` superdiagonals of the last two axes (negative: all)."""

    keeps_shape = True

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        x = operand(b, inputs, 0)
        low = b.ints(operand(b, inputs, 1), "the subdiagonals")[0]
        high = b.ints(operand(b, inputs, 2), "the superdiagonals")[0]
        if x.rank < 2:
            raise ShapeError(f"{b.where}: needs a matrix, found {list(x.shape)}")
        for count, compare in ((low, "ge"), (high, "le")):
            if count >= 0:
                kept = band(b, x.shape, compare, -count if compare == "ge" else count)
                x = b.op("select", kept, x, b.like(0, x))
        return [x]


@register("OneHot")
class OneHot(Operator):
    """indices, depth, on, off: a new axis of size depth with ``on`` at the index, if it is one of the axis' places."""

    attributes = {"dType": "DT_FLOAT", "axis": -1}

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        indices = operand(b, inputs, 0)
        (depth,) = checked_shape(b, b.ints(operand(b, inputs, 1), "the depth"))
        on, off = agree(b, operand(b, inputs, 2), operand(b, inputs, 3))
        axis, rank = self.int_attr(node, "axis"), indices.rank + 1
        if not -rank <= axis < rank:
            raise ShapeError(f"{b.where}: axis {axis} is outside a result of rank {rank}")
        axis += rank if axis < 0 else 0
        line = b.reshape(iota(b, depth), [depth if i == axis else 1 for i in range(rank)])
        at = b.cast(b.unsqueeze(indices, [axis]), DType.I64)
        hit = b.op("eq", at, line)
        return [b.op("select", hit, b.reshape(on, (1,) * rank), b.reshape(off, (1,) * rank))]


@infer.rule(Fill)
def _infer_fill(h: infer.ShapeInference, node: Node) -> list[infer.InferredShape]:
    dims, value = infer.listed(h, node.inputs[0]), infer.operand(node, 1)
    fixed = h.known_ints(node.inputs[0])
    content = h.ints(value)
    if fixed is not None and len(fixed) == 1 and 0 <= fixed[0] <= 64 and content is not None and len(content) == 1:
        h.numbers[node.outputs[0]] = content * fixed[0]
    return [(value.dtype, None if dims is None else tuple(dims))]


@infer.rule(Range, LinSpace)
def _infer_arange(h: infer.ShapeInference, node: Node) -> list[infer.InferredShape]:
    bounds = [h.ints(v) for v in node.inputs]
    length: symbolic.Size = None
    if node.op == "Range" and all(b is not None and len(b) == 1 for b in bounds):
        start, limit, delta = (b[0] for b in bounds if b is not None)
        if isinstance(delta, int) and delta:
            way = symbolic.subtract(limit, start) if delta > 0 else symbolic.subtract(start, limit)
            length = symbolic.maximum(symbolic.ceil_divide(way, abs(delta)), 0)
        if isinstance(start, int) and isinstance(limit, int) and isinstance(delta, int) and isinstance(length, int):
            h.numbers.update({node.outputs[0]: list(range(start, limit, delta))} if length <= infer.SMALL else {})
    return [(infer.operand(node, 0).dtype, (length,))]


@infer.rule(OneHot)
def _infer_one_hot(h: infer.ShapeInference, node: Node) -> list[infer.InferredShape]:
    known, depth = infer.sizes(infer.operand(node, 0)), h.ints(node.inputs[1])
    if known is None:
        return [(infer.operand(node, 2).dtype, None)]
    axis = infer.axis_of(infer.number(node, "axis", -1), len(known) + 1)
    return [(infer.operand(node, 2).dtype, (*known[:axis], depth[0] if depth else None, *known[axis:]))]
