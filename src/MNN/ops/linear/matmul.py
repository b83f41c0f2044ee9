"""Matrix products."""

from __future__ import annotations

from collections.abc import Sequence

from MNN.ir.dtype import DType
from MNN.ir.graph import Node
from MNN.ir.prims import Tensor
from MNN.ir.quant import QuantizedArray
from MNN.ops.core.base import Operator, register
from MNN.ops.core.builder import Builder
from MNN.ops.core.operands import operand, optional
from MNN.ops.inference import infer, symbolic_shape_check
from MNN.ops.linear.compressed import compressed_matmul


def swap_last(b: Builder, x: Tensor) -> Tensor:
    """The last two axes exchanged."""
    return b.permute(x, (*range(x.rank - 2), x.rank - 1, x.rank - 2)) if x.rank > 1 else x


def _product(b: Builder, x: Tensor, y: Tensor, transpose_x: bool, transpose_y: bool) -> Tensor:
    return b.matmul(swap_last(b, x) if transpose_x else x, swap_last(b, y) if transpose_y else y)


@register("MatMul")
class MatMul(Operator):
    """``A @ B + bias?`` by numpy's rules for batches and vectors; ``transposeA``, ``transposeB`` swap the last axes."""

    repeats = True
    attributes = {"T": "DT_FLOAT", "transposeA": False, "transposeB": False}

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        x, y, bias = operand(b, inputs, 0), operand(b, inputs, 1), optional(inputs, 2)
        out = _product(b, x, y, self.bool_attr(node, "transposeA"), self.bool_attr(node, "transposeB"))
        out = b.cast(out, x.dtype) if x.dtype in (DType.I8, DType.U8) else out
        return [out if bias is None else b.op("add", out, b.cast(bias, out.dtype))]

    def lower_compressed(
        self, b: Builder, node: Node, inputs: Sequence[Tensor | None], weight: QuantizedArray
    ) -> Sequence[Tensor] | None:
        if not self.bool_attr(node, "transposeB") or len(weight.shape) != 2:
            return None
        x, bias = operand(b, inputs, 0), optional(inputs, 2)
        out = compressed_matmul(b, swap_last(b, x) if self.bool_attr(node, "transposeA") else x, weight)
        if out is None:
            return None
        return [out if bias is None else b.op("add", out, b.cast(bias, out.dtype))]


@register("BatchMatMul")
class BatchMatMul(Operator):
    """``A @ B`` over equal batch dimensions; ``adjX``/``adjY`` swap the last axes."""

    attributes = {"adjX": False, "adjY": False}

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        x, y = operand(b, inputs, 0), operand(b, inputs, 1)
        return [_product(b, x, y, self.bool_attr(node, "adjX"), self.bool_attr(node, "adjY"))]


@register("InnerProduct")
class InnerProduct(Operator):
    """``x`` flattened from ``axis`` on, times ``weight[O, K]`` (``[K, O]`` when ``transpose``), plus ``bias[O]?``."""

    attributes = {"outputCount": 0, "biasTerm": 0, "weightSize": 0, "axis": 0, "transpose": False}

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        x, w, bias = operand(b, inputs, 0), operand(b, inputs, 1, "weight"), optional(inputs, 2)
        axis = self.int_attr(node, "axis")
        axis = axis + x.rank if axis < 0 else axis
        k = w.shape[0] if self.bool_attr(node, "transpose") else w.shape[1]
        rows = b.reshape(x, (*x.shape[:axis], k))
        out = b.matmul(rows, w if self.bool_attr(node, "transpose") else swap_last(b, w))
        return [out if bias is None else b.op("add", out, bias)]


@infer.rule(MatMul, BatchMatMul)
def infer_matmul(h: infer.ShapeInference, node: Node) -> list[infer.InferredShape]:
    x, y = infer.operand(node, 0), infer.operand(node, 1)
    a, b = infer.sizes(x), infer.sizes(y)
    dtype = DType.I32 if node.op == "MatMulInteger" else x.dtype or y.dtype
    if a is None or b is None or not a or not b:
        return [(dtype, None)]
    transposed = [
        bool(node.attrs.get(k))
        for k in (("adjX", "adjY") if node.op == "BatchMatMul" else ("transposeA", "transposeB"))
    ]
    left = (*a[:-2], a[-1], a[-2]) if transposed[0] and len(a) > 1 else a
    right = (*b[:-2], b[-1], b[-2]) if transposed[1] and len(b) > 1 else b
    batch = infer.broadcast([left[:-2], right[:-2]]) or ()
    return [(dtype, (*batch, *left[-2:-1], *(right[-1:] if len(right) > 1 else ())))]


@symbolic_shape_check.rule(MatMul, BatchMatMul)
def fits_product(node: Node, shapes: list[symbolic_shape_check.Sizes | None]) -> bool:
    keys = ("adjX", "adjY") if node.op == "BatchMatMul" else ("transposeA", "transposeB")
    transposed = [bool(node.attrs.get(k)) for k in keys]
    y, bias = shapes[1], shapes[2] if node.op == "MatMul" and len(shapes) > 2 else None
    if (
        bias
        and y is not None
        and len(y) > 1
        and not symbolic_shape_check.broadcasts([bias[-1:], (y[-2] if transposed[1] else y[-1],)])
    ):
        return False
    return symbolic_shape_check.multiplies(shapes[0], y, transposed)
