"""Operators that only files of the official engine hold: Caffe's elementwise operators and other simple ones."""

from __future__ import annotations

from collections.abc import Sequence

from MNN.errors import ShapeError
from MNN.ir.graph import Node
from MNN.ir.prims import Tensor
from MNN.ops.core.base import Operator, register
from MNN.ops.core.builder import Builder
from MNN.ops.core.operands import operand, wide
from MNN.ops.inference import infer

_TYPES = {"PROD": "mul", "SUM": "add", "MAXIMUM": "max", "SUB": "sub"}


@register("Eltwise")
class Eltwise(Operator):
    """Two or more tensors of one shape combined: product, sum (of multiples when ``coeff`` is given), maximum,
    difference."""

    attributes = {"type": "PROD", "coeff": None}

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        parts = [operand(b, inputs, i) for i in range(max(len(inputs), 2))]
        kind = self.str_attr(node, "type")
        if kind not in _TYPES:
            raise ShapeError(f"{b.where}: type {kind} is none of {', '.join(_TYPES)}")
        coefficients = self.attr(node, "coeff")
        if isinstance(coefficients, list) and kind == "SUM" and any(c != 1 for c in coefficients):
            if len(coefficients) != len(parts):
                raise ShapeError(f"{b.where}: {len(coefficients)} coefficients for {len(parts)} operands")
            parts = [b.op("mul", t, b.like(c, t)) for t, c in zip(parts, coefficients, strict=True)]
        out = parts[0]
        for part in parts[1:]:
            out = b.op(_TYPES[kind], out, part)
        return [out]


@register("Dropout", "Copy")
class Dropout(Operator):
    """``y = x``: nothing is dropped in inference."""

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        return [operand(b, inputs, 0)]


@register("Threshold")
class Threshold(Operator):
    """1 where ``x > alpha``, else 0."""

    attributes = {"alpha": 0.0}

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        x = operand(b, inputs, 0)
        return [b.cast(b.op("gt", x, b.like(self.float_attr(node, "alpha"), x)), x.dtype)]


@register("Moments")
class Moments(Operator):
    """Mean and variance over ``dim``."""

    attributes = {"dim": None, "keepDims": True, "dType": "DT_FLOAT"}

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        x, axes = operand(b, inputs, 0), self.ints_attr(node, "dim")
        keep, x32 = self.bool_attr(node, "keepDims"), wide(b, x)
        mean = b.reduce("mean", x32, axes)
        centred = b.op("sub", x32, mean)
        variance = b.reduce("mean", b.op("mul", centred, centred), axes)
        return [b.cast(t if keep else b.squeeze(t, axes), x.dtype) for t in (mean, variance)]


@register("CosineSimilarity")
class CosineSimilarity(Operator):
    """``sum(x * y) / sqrt(sum(x * x) * sum(y * y))`` over the axis in the third operand."""

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        x, y = operand(b, inputs, 0), operand(b, inputs, 1)
        axes = b.ints(operand(b, inputs, 2), "the axis")[:1]
        x32, y32 = wide(b, x), wide(b, y)
        xy, xx, yy = (
            b.reduce("sum", b.op("mul", p, q), axes, keepdims=False) for p, q in ((x32, y32), (x32, x32), (y32, y32))
        )
        return [b.cast(b.op("div", xy, b.op("sqrt", b.op("mul", xx, yy))), x.dtype)]


@infer.rule(Eltwise, Dropout, Threshold)
def _infer_any_operand(h: infer.ShapeInference, node: Node) -> list[infer.InferredShape]:
    known = [v for v in node.inputs if v is not None and v.shape is not None]
    return [(known[0].dtype, tuple(known[0].shape or ()))] if known else []
