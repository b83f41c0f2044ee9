"""Sampling positions of affine maps."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from MNN.errors import ShapeError
from MNN.ir.dtype import DType
from MNN.ir.graph import Node
from MNN.ir.prims import Tensor
from MNN.ops.arranging.creating import checked_shape, iota
from MNN.ops.core.base import Operator, register
from MNN.ops.core.builder import Builder
from MNN.ops.core.operands import operand, wide
from MNN.ops.inference import infer


@register("AffineGrid")
class AffineGrid(Operator):
    """theta ``[N, d, d + 1]``, size ``[N, C, spatial...]``: positions ``[N, spatial..., d]`` for GridSample.

    Positions of pixel centres run from -1 to 1 over the image; with ``alignCorners`` the outer centres lie on the ends.
    """

    in_mnn = False
    attributes = {"alignCorners": False}

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        theta = operand(b, inputs, 0)
        size = checked_shape(b, b.ints(operand(b, inputs, 1), "the size"))
        count = len(size) - 2
        if count not in (2, 3) or theta.shape != (size[0], count, count + 1) or not theta.dtype.is_float:
            raise ShapeError(f"{b.where}: theta {theta} does not fit size {list(size)}")
        aligned, spatial, w = self.bool_attr(node, "alignCorners"), size[2:], wide(b, theta)
        lines = []
        for axis in reversed(range(count)):  # x, the innermost axis, comes first
            line = self._line(b, spatial[axis], aligned, w.dtype)
            lines.append(b.expand(b.reshape(line, [-1 if i == axis else 1 for i in range(count)]), spatial))
        lines.append(b.expand(b.const(np.ones((1,) * count), w.dtype), spatial))
        base = b.reshape(b.concat([b.unsqueeze(t, [count]) for t in lines], count), (1, -1, count + 1))
        grid = b.matmul(base, b.permute(w, (0, 2, 1)))
        return [b.cast(b.reshape(grid, (size[0], *spatial, count)), theta.dtype)]

    @staticmethod
    def _line(b: Builder, size: int, aligned: bool, dtype: DType) -> Tensor:
        steps = b.cast(iota(b, size), dtype)
        count = b.open_numbers.tensor([size], (), DType.I64)  # which differs from run to run where the size is open
        gaps = b.cast(b.op("max", b.op("sub", count, b.like(int(aligned), count)), b.like(1, count)), DType.F64)
        step = b.op("div", b.like(2.0, gaps), gaps)
        first = b.like(-1.0, step)
        if not aligned:
            first = b.op("add", b.op("mul", step, b.like(0.5, step)), first)
        return b.op("add", b.op("mul", steps, b.cast(step, dtype)), b.cast(first, dtype))


@infer.rule(AffineGrid)
def _infer_affine_grid(h: infer.ShapeInference, node: Node) -> list[infer.InferredShape]:
    x, size = infer.operand(node, 0), infer.listed(h, infer.operand(node, 1))
    return [(x.dtype, None if not size else (size[0], *size[2:], len(size) - 2))]
