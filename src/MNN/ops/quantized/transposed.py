"""Transposed convolution of quantised tensors."""

from __future__ import annotations

from collections.abc import Sequence

from MNN.ir.dtype import DType
from MNN.ir.graph import Node
from MNN.ir.prims import Tensor
from MNN.ops.core.base import Operator, register
from MNN.ops.core.builder import Builder
from MNN.ops.core.operands import along, operand, optional, require_rank
from MNN.ops.inference import infer, symbolic_shape_check
from MNN.ops.linear.convolution import infer_transposed, transposed_sizes
from MNN.ops.linear.transposed import Spread, transposed_convolution
from MNN.ops.quantized.quantization import centred, centred_floats, output_factor, product_operands, requantize


@register("QLinearConvTranspose")
class QLinearConvTranspose(Operator):
    """Transposed convolution of 8-bit integers: inputs ``x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero,
    bias?`` (i32) as QLinearConv has them, with weights ``[C, O/group, kernel...]``. ``x`` may be of 16 bits.

    No format has it: passes make it of a transposed convolution between dequantised and quantised tensors.
    """

    in_mnn = False
    zero_points, result_zero_point = {0: 2, 3: 5}, 7
    attributes = {
        "strides": None, "dilations": None, "pads": None, "outPads": None, "padMode": "CAFFE", "group": 1,
    }  # fmt: skip

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        x, xs, xz, w, ws, wz, os, oz = (operand(b, inputs, i) for i in range(8))
        bias = optional(inputs, 8)
        require_rank(b, w, x.rank, name="the weight")
        spatial, group = x.rank - 2, self.int_attr(node, "group")
        channels = w.shape[1] * group
        strides = self.ints_attr(node, "strides") or (1,) * spatial
        dilations = self.ints_attr(node, "dilations") or (1,) * spatial
        explicit = self.ints_attr(node, "pads") or (0,) * (2 * spatial)
        extra = self.ints_attr(node, "outPads") or (0,) * spatial
        mode = self.str_attr(node, "padMode")
        pads, sizes = transposed_sizes(b, mode, x, w, strides, dilations, explicit, extra, None)
        factor = b.expand(b.reshape(output_factor(b, xs, ws, os), (-1,)), (channels,))
        words = x.dtype is DType.I16
        weights = (centred_floats if words else centred)(b, w, along(b, wz, 1, w.rank))
        zero = 0
        if words:
            x = centred_floats(b, x, b.reshape(xz, ()))
        elif xz.const is None:
            x = b.op("sub", b.cast(x, DType.I32), b.cast(b.reshape(xz, ()), DType.I32))
        else:
            zero = int(xz.const.reshape(-1)[0])

        def finish(out: Tensor, spread: Spread) -> Tensor:
            total = out if bias is None else b.op("add", out, spread(b.cast(bias, out.dtype)))
            return requantize(b, total, spread(factor), b.reshape(oz, ()))

        x, weights = (x, weights) if words else product_operands(b, x, weights)
        return [transposed_convolution(b, x, weights, finish, strides, dilations, group, pads, sizes, zero)]


@infer.rule(QLinearConvTranspose)
def _infer(h: infer.ShapeInference, node: Node) -> list[infer.InferredShape]:
    dtype = infer.operand(node, 7).dtype
    known, weights = infer.sizes(infer.operand(node, 0)), infer.sizes(infer.operand(node, 3))
    if weights is None or (known is not None and len(known) != len(weights)):
        return [(dtype, None)]
    spatial = len(weights) - 2
    strides, dilations = (infer.ints(node, key) or [1] * spatial for key in ("strides", "dilations"))
    pads = infer.ints(node, "pads") or [0] * (2 * spatial)
    return [(dtype, infer_transposed(node, known, weights, strides, dilations, pads))]


@symbolic_shape_check.rule(QLinearConvTranspose)
def _fits(node: Node, shapes: list[symbolic_shape_check.Sizes | None]) -> bool:
    x, w = shapes[0], shapes[3]
    return x is None or w is None or (len(x) == len(w) and not symbolic_shape_check.differ(x[1], w[0]))
