"""Windows of images as columns."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from MNN.errors import ShapeError
from MNN.ir import symbolic
from MNN.ir.graph import Node
from MNN.ir.prims import Tensor
from MNN.ops.core.base import register
from MNN.ops.core.builder import Builder
from MNN.ops.core.operands import operand, require_rank
from MNN.ops.inference import infer
from MNN.ops.inference.windows import windows as window_counts
from MNN.ops.linear.convolution import BaseConvolution, resolve_pads


@register("Im2Col")
class Im2Col(BaseConvolution):
    """Windows of ``x[N, C, H, W]`` as columns, ``[C * kernelY * kernelX, N * outputs]``: part of what the official
    converter makes of a convolution over three dimensions."""

    attributes = {
        "padX": 0, "padY": 0, "kernelX": 1, "kernelY": 1, "strideX": 1, "strideY": 1, "dilateX": 1, "dilateY": 1,
        "padMode": "CAFFE", "group": 1, "pads": None,
    }  # fmt: skip

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        x = operand(b, inputs, 0)
        require_rank(b, x, 4)
        kernel = self.int_attr(node, "kernelY"), self.int_attr(node, "kernelX")
        strides, dilations, explicit = self.geometry(node)
        if min(*kernel, *strides, *dilations) < 1:
            raise ShapeError(f"{b.where}: kernel {kernel}, strides {strides}, dilations {dilations} must be positive")
        spans = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
        pads = resolve_pads(b, self.str_attr(node, "padMode"), explicit, x.shape[2:], spans, strides)
        found = b.pad(x, (0, 0, *pads[:2]), (0, 0, *pads[2:]))
        sizes = [(n - k) // s + 1 for n, k, s in zip(found.shape[2:], spans, strides, strict=True)]
        if any(n < 1 for n in sizes):
            raise ShapeError(f"{b.where}: window {spans} is larger than the padded input {list(found.shape)}")
        for axis, taps, step, count, stride in zip((2, 4), kernel, dilations, sizes, strides, strict=True):
            b.require(taps * count, "the table of positions")
            places = np.arange(taps)[:, None] * step + np.arange(count) * stride
            found = b.take(found, b.const(places), axis)  # in the end [N, C, kernelY, H, kernelX, W]
        rows, columns = x.shape[1] * kernel[0] * kernel[1], x.shape[0] * sizes[0] * sizes[1]
        return [b.reshape(b.permute(found, (1, 2, 4, 0, 3, 5)), (rows, columns))]


@infer.rule(Im2Col)
def _infer_im2col(h: infer.ShapeInference, node: Node) -> list[infer.InferredShape]:
    x = infer.operand(node, 0)
    known = infer.sizes(x)
    if known is None or len(known) != 4:
        return [(x.dtype, (None, None))]
    kernel, strides, dilations = (
        [infer.number(node, f"{name}Y") or 1, infer.number(node, f"{name}X") or 1]
        for name in ("kernel", "stride", "dilate")
    )
    pads = infer.ints(node, "pads") or [infer.number(node, "padY"), infer.number(node, "padX")]
    mode = str(node.attrs.get("padMode", "CAFFE"))
    counts = window_counts(known[2:], kernel, strides, dilations, pads, mode)
    return [(x.dtype, (symbolic.multiply(known[1], *kernel), symbolic.multiply(known[0], *counts)))]
