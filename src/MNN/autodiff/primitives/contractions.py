"""Matrix products: the transposed products."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from MNN.autodiff.row_products import row_product, transposed
from MNN.autodiff.rules import Cotangents, Wanted, rule, sum_to
from MNN.ir import prims as p
from MNN.ir.prims import Tensor
from MNN.ir.quant import QuantizedArray
from MNN.ops.core.builder import Builder


def _is_turned(y: Tensor) -> bool:
    """Whether a matrix is another one with its axes exchanged, outer axes of one aside."""
    view = y.producer
    if isinstance(view, p.Reshape) and y.shape[-2:] == view.inputs[0].shape[-2:]:
        return _is_turned(view.inputs[0])
    return isinstance(view, p.Permute) and list(view.perm) == [*range(y.rank - 2), y.rank - 1, y.rank - 2]


def _of_one_matrix(b: Builder, x: Tensor, given: Tensor, turned: bool) -> Tensor:
    """``x.T @ given`` of matrices with as many rows, all of which one matrix was multiplied with.

    Columns of the left side are transposed, those of the right one copied into panels, which takes about half as long;
    so the wider matrix is the right one, unless the product would then lie in the wrong order (that of the matrix, or
    of the one that it is a ``turned`` view of) and is not small beside what is saved."""
    rows, left, right = x.shape[0], x.shape[1], given.shape[1]
    if all(type(n) is int for n in (rows, left, right)):
        saved, order = rows * (left - right), 2 * left * right
        turned = saved > -order if turned else saved > order
    return transposed(b, row_product(b, given, x)) if turned else row_product(b, x, given)


@rule(p.MatMul)
def _matmul(b: Builder, prim: p.MatMul, g: Cotangents, wanted: Wanted) -> Sequence[Tensor | None]:
    (x, y), given = prim.inputs, g[0]
    assert given is not None
    left = right = None
    if wanted[0]:
        left = sum_to(b, b.matmul(given, transposed(b, y)), x.shape)
    if wanted[1] and prod(y.shape[:-2]) == 1 and prod(given.shape[:-2]) == prod(x.shape[:-2]):
        # one matrix for the whole batch: its rows are rows of one large product
        rows, wide = (b.reshape(t, (prod(t.shape[:-1]), t.shape[-1])) for t in (x, given))
        right = b.reshape(_of_one_matrix(b, rows, wide, _is_turned(y)), y.shape)
    elif wanted[1]:
        right = sum_to(b, b.matmul(transposed(b, x), given), y.shape)
    return [left, right]


@rule(p.CompressedMatMul)
def _compressed(b: Builder, prim: p.CompressedMatMul, g: Cotangents, wanted: Wanted) -> Sequence[Tensor | None]:
    """Weights in few bits are constants: only the other side has a gradient."""
    x, given = prim.inputs[0], g[0]
    assert given is not None
    rest: list[Tensor | None] = [None] * (len(prim.inputs) - 1)
    arrays = [t.const for t in prim.inputs[1:]]
    codes, scales = arrays[0], arrays[1]
    if not wanted[0] or codes is None or scales is None:
        return [None, *rest]
    shape = (codes.shape[0], x.shape[-1])
    offsets = arrays[2] if len(arrays) > 2 else None
    weight = QuantizedArray(codes, scales, offsets, prim.width, shape, prim.width).dequantize()
    return [b.matmul(given, b.const(np.asarray(weight), x.dtype)), *rest]


@rule(p.RoutedMatMul)
def _routed(b: Builder, prim: p.RoutedMatMul, g: Cotangents, wanted: Wanted) -> Sequence[Tensor | None]:
    """The matrices are constants: only the rows have a gradient, by the transposed matrices."""
    x, given = prim.inputs[0], g[0]
    assert given is not None
    rest: list[Tensor | None] = [None] * (len(prim.inputs) - 1)
    if not wanted[0]:
        return [None, *rest]
    matrices, *scales = (np.asarray(t.const) for t in prim.inputs[2:])
    if prim.width:
        offset = scales[1] if len(scales) > 1 else None
        held = QuantizedArray(matrices, scales[0], offset, prim.width, (len(matrices), x.shape[-1]), prim.width)
        matrices = held.dequantize()
    turned = matrices.reshape(prim.count, -1, x.shape[-1]).swapaxes(1, 2).reshape(-1, given.shape[-1])
    back = p.RoutedMatMul([given, prim.inputs[1], b.const(turned, x.dtype)], count=prim.count)
    shape = (*given.shape[:-1], x.shape[-1])
    return [sum_to(b, b.emit(back, (x.dtype, shape))[0], x.shape), *rest]


__all__ = ["row_product", "transposed"]
