"""Products with one of several matrices, chosen for every row: the experts of a mixture."""

from __future__ import annotations

from collections.abc import Sequence

from MNN.errors import ShapeError
from MNN.ir.dtype import DType
from MNN.ir.graph import Node
from MNN.ir.prims import RoutedMatMul as Routed
from MNN.ir.prims import Tensor
from MNN.ir.quant import QuantizedArray
from MNN.ir.shape import broadcast
from MNN.ops.arranging.indexing import as_index
from MNN.ops.core.base import Operator, register
from MNN.ops.core.builder import Builder
from MNN.ops.core.operands import operand
from MNN.ops.linear.compressed import FLOATS


def routed_matmul(b: Builder, x: Tensor, index: Tensor, weight: Tensor | QuantizedArray, count: int) -> Tensor:
    """``out[r] = W[index[r]] @ x[r]`` for rows ``x[..., K]`` and choices ``index[...]``, whose sizes broadcast, with
    ``count`` matrices ``[count * N, K]`` one above the other. Matrices that are no constants are copied for each row.

    Raises :class:`ShapeError` for sizes that do not fit.
    """
    rows, cols = weight.shape[0], weight.shape[-1]
    if x.rank < 2 or index.rank != x.rank - 1 or len(weight.shape) != 2 or x.shape[-1] != cols:
        raise ShapeError(
            f"{b.where}: rows of {list(x.shape)} and choices of {list(index.shape)} do not fit matrices of "
            f"{list(weight.shape)}"
        )
    if count < 1 or rows % count:
        raise ShapeError(f"{b.where}: {rows} rows are not those of {count} matrices")
    shape = (*broadcast(x.shape[:-1], index.shape), rows // count)
    if isinstance(weight, QuantizedArray):
        parts = [weight.codes, weight.scale, *([] if weight.offset is None else [weight.offset])]
        constants = [Tensor(DType.of(a), tuple(a.shape), const=a, keep=weight) for a in parts]
        prim = Routed([x, index, *constants], count=count, width=weight.width, row_bits=weight.row_bits)
        return b.emit(prim, (x.dtype, shape))[0]
    if weight.const is None:
        each = b.take(b.reshape(weight, (count, rows // count, cols)), index, 0)
        column = b.reshape(x, (*x.shape, 1))
        return b.squeeze(b.matmul(each, column), [len(shape)])
    return b.emit(Routed([x, index, weight], count=count), (x.dtype, shape))[0]


@register("RoutedMatMul")
class RoutedMatMul(Operator):
    """x ``[..., K]``, matrices ``[count * N, K]`` one above the other, index ``[...]``: each row of x times the matrix
    that its index names, ``[..., N]``. Sizes of x and index broadcast."""

    repeats = True
    attributes = {"count": 1}
    in_mnn = False

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        x, weight, index = (operand(b, inputs, i) for i in range(3))
        return [routed_matmul(b, x, as_index(b, index), weight, self.int_attr(node, "count"))]

    def lower_compressed(
        self, b: Builder, node: Node, inputs: Sequence[Tensor | None], weight: QuantizedArray
    ) -> Sequence[Tensor] | None:
        x, index = operand(b, inputs, 0), operand(b, inputs, 2)
        if x.dtype not in FLOATS or len(weight.shape) != 2:
            return None
        return [routed_matmul(b, x, as_index(b, index), weight, self.int_attr(node, "count"))]
