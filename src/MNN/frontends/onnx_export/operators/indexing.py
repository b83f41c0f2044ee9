"""Gathering, scattering, sorting, reductions, running sums, random numbers."""

from __future__ import annotations

import numpy as np

from MNN.frontends.onnx_export.exporter import CODES, Exporter, exports
from MNN.frontends.onnx_export.operators.arranging import END, flat_places, sized
from MNN.ir.dtype import DType
from MNN.ir.graph import Node

_REDUCTIONS = {
    "SUM": "ReduceSum", "MEAN": "ReduceMean", "MAXIMUM": "ReduceMax", "MINIMUM": "ReduceMin", "PROD": "ReduceProd",
    "ASUM": "ReduceL1", "SUMSQ": "ReduceSumSquare", "ANY": "ReduceMax", "ALL": "ReduceMin",
}  # fmt: skip
_COMBINED = {"ADD": "add", "MUL": "mul", "MAXIMUM": "max", "MINIMUM": "min"}


@exports("Reduction", "ReductionOrNone")
def reduction(e: Exporter, node: Node) -> str:
    kind, x = e.text(node, "operation"), e.required(node, 0)
    given, dims = e.value(node, 1), e.list_of(node, "dim")
    axes = e.line(node, 1) if given is not None else e.const(np.asarray(dims, np.int64)) if dims else ""
    none = 1 if node.op == "ReductionOrNone" else None
    name = e.name(x)
    if kind in ("ANY", "ALL") or x.dtype is DType.BOOL:
        whole = e.cast(name if x.dtype is DType.BOOL else e.cast(name, DType.BOOL), DType.U8)
        out = e.op(_REDUCTIONS[kind], whole, axes, keepdims=e.flag(node, "keepDims"), noop_with_empty_axes=none)
        return e.cast(out, e.dtype(x))
    return e.op(_REDUCTIONS[kind], name, axes, keepdims=e.flag(node, "keepDims"), noop_with_empty_axes=none)


@exports("Moments")
def moments(e: Exporter, node: Node) -> list[str]:
    x, axes = e.input(node, 0), e.const(np.asarray(e.list_of(node, "dim"), np.int64))
    keep = e.flag(node, "keepDims")
    whole = e.op("ReduceMean", x, axes, keepdims=1)
    d = e.op("Sub", x, whole)
    return [e.op("ReduceMean", x, axes, keepdims=keep), e.op("ReduceMean", e.op("Mul", d, d), axes, keepdims=keep)]


@exports("ArgMax", "ArgMin")
def arg_extreme(e: Exporter, node: Node) -> str:
    if e.integer(node, "topK") not in (0, 1) or e.integer(node, "outMaxVal"):
        raise e.unsupported(node, "position of more than one extreme")
    out = e.op(
        node.op, e.input(node, 0), axis=e.integer(node, "axis"), keepdims=0,
        select_last_index=1 if e.flag(node, "selectLastIndex") else None,
    )  # fmt: skip
    return sized(e, out, e.type_attr(node, "outputDataType"))


@exports("CumSum")
def cumulative(e: Exporter, node: Node) -> str:
    axis = e.op("Reshape", e.i64(node, 1), e.const(np.zeros(0, np.int64)))
    return e.op("CumSum", e.input(node, 0), axis, exclusive=e.flag(node, "exclusive"), reverse=e.flag(node, "reverse"))


def axis_of(e: Exporter, node: Node, index: int, default: int = 0) -> int:
    given = e.value(node, index)
    if given is None:
        return default
    found = e.ints(given)
    if not found:
        raise e.unsupported(node, "axis that is known only at run time")
    return found[0]


@exports("GatherV2", "GatherElements")
def gather(e: Exporter, node: Node) -> str:
    kind = "Gather" if node.op == "GatherV2" else "GatherElements"
    return e.op(kind, e.input(node, 0), flat_places(e, e.required(node, 1)), axis=axis_of(e, node, 2))


@exports("Gather")
def gather_by_attribute(e: Exporter, node: Node) -> str:
    axis = e.integer(node, "axis") if e.value(node, 2) is None else axis_of(e, node, 2)
    return e.op("Gather", e.input(node, 0), flat_places(e, e.required(node, 1)), axis=axis)


@exports("GatherND")
def gather_nd(e: Exporter, node: Node) -> str:
    return e.op("GatherND", e.input(node, 0), e.i64(node, 1), batch_dims=e.integer(node, "batchDims"))


@exports("ScatterElements")
def scatter_elements(e: Exporter, node: Node) -> str:
    operands = (e.input(node, 0), flat_places(e, e.required(node, 1)), e.input(node, 2))
    combine = _COMBINED.get(e.text(node, "opType"))
    return e.op("ScatterElements", *operands, axis=axis_of(e, node, 3), reduction=combine)


@exports("ScatterNd")
def scatter_nd(e: Exporter, node: Node) -> str:
    """Without data it is added into zeros."""
    updates, combine = e.required(node, 1), _COMBINED.get(e.text(node, "opType"))
    if e.value(node, 3) is not None:
        data = e.input(node, 3)
    else:
        data = e.op("ConstantOfShape", e.i64(node, 2), value=np.zeros(1, e.dtype(updates).numpy))
        combine = None if updates.dtype is DType.BOOL else "add"
    return e.op("ScatterND", data, e.i64(node, 0), e.name(updates), reduction=combine)


@exports("TopKV2")
def top_k(e: Exporter, node: Node) -> list[str]:
    values, places = e.emit(
        "TopK", [e.input(node, 0), e.line(node, 1)], 2, axis=axis_of(e, node, 2, -1), largest=e.flag(node, "largest"),
        sorted=1,
    )  # fmt: skip
    return [values, sized(e, places, e.type_attr(node, "outputDataType"))]


@exports("Where")
def where(e: Exporter, node: Node) -> str:
    found = e.op("Transpose", e.op("NonZero", e.input(node, 0)), perm=[1, 0])
    return sized(e, found, e.type_attr(node, "outputDataType"))


@exports("Compress")
def compress(e: Exporter, node: Node) -> str:
    axis = e.attr(node, "axis")
    return e.op("Compress", e.input(node, 0), e.input(node, 1), axis=axis)


_WIDENED = (DType.I32, DType.I16, DType.U8, DType.U16, DType.U32)
"""Element types that ONNX Runtime has no Unique of."""


@exports("Unique")
def unique(e: Exporter, node: Node) -> list[str]:
    x = e.required(node, 0)
    narrow = x.dtype in _WIDENED
    operand = e.cast(e.name(x), DType.I64) if narrow else e.name(x)
    found = e.emit("Unique", [operand], 4, axis=e.attr(node, "axis"), sorted=e.flag(node, "sorted"))
    if narrow:
        found[0] = e.cast(found[0], e.dtype(x))
    if e.flag(node, "inverseSecond") and len(node.outputs) == 2:
        found = [found[0], found[2]]
    to = e.type_attr(node, "outputDataType")
    return [found[0], *(sized(e, v, to) for v in found[1 : len(node.outputs)])]


@exports("UnravelIndex")
def unravel(e: Exporter, node: Node) -> str:
    """Quotients and remainders by what lies behind each axis."""
    at, dims = e.required(node, 0), e.ints(e.value(node, 1))
    if dims is None:
        raise e.unsupported(node, "places in a shape that is known only at run time")
    whole, rows = e.name(at), []
    for i, d in enumerate(dims):
        behind = int(np.prod(dims[i + 1 :], dtype=np.int64))
        rows.append(e.op("Mod", e.op("Div", whole, e.like(behind, at)), e.like(d, at)))
    first = e.const([0])
    return e.op("Concat", *(e.op("Unsqueeze", r, first) for r in rows), axis=0)


@exports("Reverse")
def reverse(e: Exporter, node: Node) -> str:
    axes = e.ints(e.value(node, 1))
    if axes is None:
        raise e.unsupported(node, "reversal of axes that are known only at run time")
    bounds = (np.full(len(axes), v, np.int64) for v in (-1, -END))
    steps = np.full(len(axes), -1, np.int64)
    starts, ends = (e.const(b) for b in bounds)
    return e.op("Slice", e.input(node, 0), starts, ends, e.const(np.asarray(axes, np.int64)), e.const(steps))


@exports("ReverseSequence")
def reverse_sequence(e: Exporter, node: Node) -> str:
    attrs = {"batch_axis": e.integer(node, "batchDim"), "time_axis": e.integer(node, "seqDim")}
    if sorted(attrs.values()) != [0, 1]:
        raise e.unsupported(node, "reversal of parts of other axes than the first two")
    return e.op("ReverseSequence", e.input(node, 0), e.i64(node, 1), **attrs)


@exports("OneHot")
def one_hot(e: Exporter, node: Node) -> str:
    on, off = e.required(node, 2), e.required(node, 3)
    values = e.op("Concat", *(e.op("Reshape", e.name(v), e.const([1])) for v in (off, on)), axis=0)
    indices, depth = e.i64(node, 0), e.op("Reshape", e.i64(node, 1), e.const(np.zeros(0, np.int64)))
    indices = e.op("Where", e.op("Less", indices, e.const(0)), depth, indices)  # where ONNX counts from the end
    if e.required(node, 0).shape == ():  # ONNX has it for indices of one axis and more
        one = e.op("OneHot", e.op("Reshape", indices, e.const([1])), depth, values, axis=-1)
        return e.op("Squeeze", one, e.const([0]))
    return e.op("OneHot", indices, depth, values, axis=e.integer(node, "axis"))


@exports("NonMaxSuppression", "NonMaxSuppressionV2")
def suppression(e: Exporter, node: Node) -> str:
    boxes, most = e.required(node, 0), e.line(node, 2) if e.value(node, 2) is not None else ""
    limits = [e.op("Reshape", e.input(node, i), e.const([1])) if e.value(node, i) is not None else "" for i in (3, 4)]
    to = e.type_attr(node, "outputDataType")
    centre = e.integer(node, "centerPointBox") if node.op == "NonMaxSuppression" else 0
    attrs = {"center_point_box": centre or None}
    if e.rank(boxes) == 3:
        return sized(e, e.op("NonMaxSuppression", e.name(boxes), e.input(node, 1), most, *limits, **attrs), to)
    one = e.const([0])
    whole, scores = e.op("Unsqueeze", e.name(boxes), one), e.op("Reshape", e.input(node, 1), e.const([1, 1, -1]))
    found = e.op("NonMaxSuppression", whole, scores, most, *limits, **attrs)
    return sized(e, e.op("Squeeze", e.op("Slice", found, e.const([2]), e.const([3]), e.const([1])), e.const([1])), to)


@exports("TensorScatter")
def tensor_scatter(e: Exporter, node: Node) -> str:
    e.need(24)
    return e.op(
        "TensorScatter", e.input(node, 0), e.input(node, 1), e.input(node, 2), axis=e.integer(node, "axis"),
        mode=e.text(node, "mode"),
    )  # fmt: skip


@exports("RandomUniform", "RandomNormal")
def random(e: Exporter, node: Node) -> str:
    seed, to = e.integer(node, "seed"), e.type_attr(node, "type") or DType.F32
    names = ("low", "high") if node.op == "RandomUniform" else ("mean", "scale")
    attrs = dict(zip(names, (e.number(node, "low"), e.number(node, "high")), strict=True))
    blank = e.op("ConstantOfShape", e.i64(node, 0), value=np.zeros(1, np.float32))
    return e.op(f"{node.op}Like", blank, dtype=CODES[to], seed=float(seed) if seed else None, **attrs)


@exports("Bernoulli")
def bernoulli(e: Exporter, node: Node) -> str:
    to = e.type_attr(node, "type")
    return e.op("Bernoulli", e.input(node, 0), dtype=None if to is None else CODES[to])


@exports("Multinomial")
def multinomial(e: Exporter, node: Node) -> str:
    to = e.type_attr(node, "type") or DType.I32
    return e.op("Multinomial", e.input(node, 0), sample_size=e.integer(node, "count"), dtype=CODES[to])
