"""Reductions over axes, extremes' positions, running sums."""

from __future__ import annotations

from collections.abc import Sequence

from MNN.errors import ShapeError
from MNN.ir.dtype import DType
from MNN.ir.graph import Node
from MNN.ir.prims import Tensor
from MNN.ops.core.base import Operator, register
from MNN.ops.core.builder import Builder
from MNN.ops.core.datatypes import from_data_type
from MNN.ops.core.operands import operand, optional, wide
from MNN.ops.inference import infer


@register("Reduction")
class Reduction(Operator):
    """Reduces over ``dim`` (all axes when empty; the second operand may give them while running).

    ASUM sums absolute values, SUMSQ squares. ANY and ALL give booleans for booleans. f16 and bf16 are summed in f32.
    """

    repeats = True
    attributes = {"operation": "SUM", "dim": None, "coeff": 0.0, "keepDims": False, "dType": "DT_FLOAT"}

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        x = operand(b, inputs, 0)
        given = optional(inputs, 1)
        axes = self.ints_attr(node, "dim") if given is None else b.ints(given, "the axes to reduce")
        axes = axes or tuple(range(x.rank))
        if not all(-x.rank <= a < x.rank for a in axes):
            raise ShapeError(f"{b.where}: axes {list(axes)} do not fit an input of shape {list(x.shape)}")
        keep, kind = self.bool_attr(node, "keepDims"), self.str_attr(node, "operation")
        if kind not in _REDUCTIONS:
            raise ShapeError(f"{b.where}: operation {kind} is not one of {', '.join(_REDUCTIONS)}")
        return [reduce(b, kind, x, axes, keep)]


@register("ReductionOrNone")
class ReductionOrNone(Reduction):
    """Like Reduction, but an empty list of axes in the second operand leaves the input as it is (ONNX)."""

    in_mnn = False

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        if not b.ints(operand(b, inputs, 1), "the axes to reduce"):
            return [operand(b, inputs, 0)]
        return super().lower(b, node, inputs)


_REDUCTIONS = ("SUM", "ASUM", "SUMSQ", "MEAN", "MAXIMUM", "MINIMUM", "PROD", "ANY", "ALL")


def reduce(b: Builder, kind: str, x: Tensor, axes: Sequence[int], keep: bool) -> Tensor:
    """One of MNN's reductions; the result has ``x``'s dtype."""
    if kind in ("ANY", "ALL"):
        out = b.reduce("max" if kind == "ANY" else "min", _bits(b, x), axes, keep)
        return b.cast(out, x.dtype)
    if kind in ("MAXIMUM", "MINIMUM"):
        if x.dtype is DType.BOOL:
            return reduce(b, "ANY" if kind == "MAXIMUM" else "ALL", x, axes, keep)
        return b.reduce("max" if kind == "MAXIMUM" else "min", x, axes, keep)
    w = wide(b, x)
    if kind == "ASUM":
        w = w if w.dtype.is_unsigned else b.op("abs", w)
    if kind == "SUMSQ":
        w = b.op("mul", w, w)
    out = b.reduce({"MEAN": "mean", "PROD": "prod"}.get(kind, "sum"), w, axes, keep)
    return b.cast(out, x.dtype)


def _bits(b: Builder, x: Tensor) -> Tensor:
    return b.cast(b.cast(x, DType.BOOL), DType.U8)


class _ArgExtreme(Operator):
    """Position of the extreme along ``axis``, which is dropped; i32 unless ``outputDataType`` says otherwise."""

    attributes = {
        "outMaxVal": 0,
        "topK": 1,
        "axis": 0,
        "softmaxThreshold": 0,
        "outputDataType": "DT_INT32",
        "selectLastIndex": False,
    }
    find = ""

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        x = operand(b, inputs, 0)
        if self.int_attr(node, "outMaxVal") or self.int_attr(node, "topK") > 1:
            raise ShapeError(f"{b.where}: outMaxVal and topK above 1 are a form of Caffe's ArgMax; use TopKV2")
        find = self.find + ("_last" if self.bool_attr(node, "selectLastIndex") else "")
        axis = self.int_attr(node, "axis")
        if not -x.rank <= axis < x.rank or not x.shape[axis]:
            raise ShapeError(f"{b.where}: nothing to choose from along axis {axis} of {list(x.shape)}")
        dtype = from_data_type(self.str_attr(node, "outputDataType"), b.where)
        return [b.cast(b.argreduce(find, wide(b, x), axis, keepdims=False), dtype)]


@register("ArgMax")
class ArgMax(_ArgExtreme):
    find = "argmax"


@register("ArgMin")
class ArgMin(_ArgExtreme):
    find = "argmin"


class _Cumulative(Operator):
    """Running combination of ``x`` along the axis given by the second operand."""

    attributes = {"exclusive": False, "reverse": False}
    combine = ""

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        x = operand(b, inputs, 0)
        axis = b.ints(operand(b, inputs, 1), "the axis")
        if len(axis) != 1:
            raise ShapeError(f"{b.where}: the axis must be one number, found {list(axis)}")
        flags = self.bool_attr(node, "exclusive"), self.bool_attr(node, "reverse")
        out = b.scan(self.combine, wide(b, x), axis[0], *flags)
        return [b.cast(out, x.dtype)]


@register("CumSum")
class CumSum(_Cumulative):
    keeps_shape = True
    combine = "add"


@register("CumProd")
class CumProd(_Cumulative):
    keeps_shape = True
    combine = "mul"


@infer.rule(Reduction, ReductionOrNone)
def _infer_reduction(h: infer.ShapeInference, node: Node) -> list[infer.InferredShape]:
    x = infer.operand(node, 0)
    known = infer.sizes(x)
    axes = infer.axes_of(h, node, "dim")
    if known is None or axes is None or (node.op == "ReductionOrNone" and not axes):
        return [(x.dtype, (None,) * len(known) if known is not None and node.attrs.get("keepDims") else None)]
    drop = {infer.axis_of(a, len(known)) for a in axes} or set(range(len(known)))
    if node.attrs.get("keepDims"):
        return [(x.dtype, tuple(1 if i in drop else d for i, d in enumerate(known)))]
    return [(x.dtype, tuple(d for i, d in enumerate(known) if i not in drop))]
