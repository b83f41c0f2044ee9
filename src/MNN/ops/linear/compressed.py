"""Products with weights that stay compressed: which operators have them, and when."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np

from MNN.errors import MISFITS, ShapeError
from MNN.ir.dtype import DType
from MNN.ir.graph import Node
from MNN.ir.prims import CompressedMatMul, Tensor
from MNN.ir.quant import QuantizedArray
from MNN.ops.core.base import misfit, operator
from MNN.ops.core.builder import Builder
from MNN.schema.files import release

_WORD = 32
_LARGEST = 2.0**100
"""Scales and offsets beyond this are not computed with: kernels multiply them by a power of two."""
FLOATS = (DType.F32, DType.F16, DType.BF16)


@runtime_checkable
class TakesCompressed(Protocol):
    """An operator that can work on a compressed operand 1."""

    def lower_compressed(
        self, b: Builder, node: Node, inputs: Sequence[Tensor | None], weight: QuantizedArray
    ) -> Sequence[Tensor] | None:
        """As ``lower``, where ``inputs[1]`` is None; None when the weight has to be expanded after all."""
        ...


def compressed_weight(node: Node) -> QuantizedArray | None:
    """The compressed operand 1 that the node's operator may be able to take as it is."""
    given = node.inputs[1] if len(node.inputs) > 1 else None
    if given is None or not isinstance(given.data, QuantizedArray) or not isinstance(operator(node), TakesCompressed):
        return None
    return given.data if _computable(given.data) else None


def lower_compressed(
    b: Builder, node: Node, inputs: Sequence[Tensor | None], weight: QuantizedArray
) -> list[Tensor] | None:
    """The outputs of such a node, ``inputs[1]`` being None; None when the weight has to be expanded after all.

    Errors as in :func:`MNN.ops.core.base.lower_node`."""
    op = operator(node)
    assert isinstance(op, TakesCompressed)
    try:
        found = op.lower_compressed(b, node, inputs, weight)
    except MISFITS as error:
        raise misfit(node, inputs, error) from error
    return None if found is None else list(found)


def _computable(weight: QuantizedArray) -> bool:
    blocks = weight.scale.shape[1]
    if not weight.codes.size or not blocks or weight.cols % blocks:
        return False
    if blocks > 1 and weight.cols // blocks * weight.width % _WORD:
        return False
    numbers = [weight.scale] if weight.offset is None else [weight.scale, weight.offset]
    found = all(bool((np.abs(a) < _LARGEST).all()) for a in numbers)  # not of NaN either
    for a in numbers:
        release(a)  # packing reads them again, when their turn comes
    return found


def compressed_matmul(b: Builder, x: Tensor, weight: QuantizedArray) -> Tensor | None:
    """``x @ W.T`` with rows ``W`` of a compressed weight; None where x is of no float type."""
    if x.dtype not in FLOATS:
        return None
    if not x.rank or x.shape[-1] != weight.cols:
        raise ShapeError(f"{b.where}: cannot multiply {list(x.shape)} by {[weight.cols, weight.shape[0]]}")
    parts = [weight.codes, weight.scale, *([] if weight.offset is None else [weight.offset])]
    constants = [Tensor(DType.of(a), tuple(a.shape), const=a, keep=weight) for a in parts]
    rows = b.reshape(x, (1, *x.shape)) if x.rank == 1 else x
    shape = (*rows.shape[:-1], weight.shape[0])
    product = CompressedMatMul(
        [rows, *constants], width=weight.width, row_bits=weight.row_bits, finite_rows=weight.finite_rows
    )
    out = b.emit(product, (x.dtype, shape))[0]
    return out if rows is x else b.squeeze(out, [0])
