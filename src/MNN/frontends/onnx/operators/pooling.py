"""Pooling operators."""

from __future__ import annotations

from MNN.frontends.common.expressions import drop_axis, insert_axis
from MNN.frontends.onnx.context import Context
from MNN.frontends.onnx.node import OnnxNode
from MNN.frontends.onnx.operands import Operands
from MNN.frontends.onnx.operators.convolution import ints, pad_mode
from MNN.frontends.onnx.registry import onnx_op
from MNN.ir.graph import Value


@onnx_op("MaxPool", "AveragePool", "LpPool")
def pool(ctx: Context, node: OnnxNode) -> list[Value]:
    return pooled(ctx, node, node.op, node.input(0))


def pooled(ctx: Context, node: OnnxNode, op: str, x: Value) -> list[Value]:
    """``x`` as the operator ``op`` of ONNX pools it, with the windows that the node states."""
    kernel = node.ints_attr("kernel_shape") or []
    count = len(kernel)
    strides, dilations = ints(node, "strides", count, 1), ints(node, "dilations", count, 1)
    mode, pads = pad_mode(ctx, node, x, kernel, strides, dilations)
    ceil = node.bool_attr("ceil_mode", False)
    include = op == "AveragePool" and node.bool_attr("count_include_pad", False)
    indices = op == "MaxPool" and node.wants(1)
    order = node.int_attr("storage_order", 0) if op == "MaxPool" else 0
    plain = op != "LpPool" and not indices and all(d == 1 for d in dilations) and mode != "SAME_LOWER"
    kind = "MAXPOOL" if op == "MaxPool" else "AVEPOOL"
    if plain and count == 3 and not ceil and not include and mode == "CAFFE":
        begins, ends = (pads or [0] * 6)[:3], (pads or [0] * 6)[3:]
        if begins == ends:
            return [ctx.op("Pooling3D", x, kernels=kernel, strides=strides, pads=begins, type=kind, padType=mode)]
    if plain and count in (1, 2):
        return [_planar(ctx, x, kernel, strides, mode, pads, ceil, kind, include)]
    attrs: dict[str, object] = {
        "kernel_shape": kernel, "strides": strides, "dilations": dilations, "pads": pads, "padMode": mode,
        "ceil_mode": ceil,
    }  # fmt: skip
    if op == "LpPool":
        attrs["p"] = node.int_attr("p", 2)
    elif op == "MaxPool":
        attrs["storage_order"] = order
    else:
        attrs["count_include_pad"] = include
    return ctx.emit(op, [x], 2 if indices else 1, **attrs)


def _planar(
    ctx: Context,
    x: Value,
    kernel: list[int],
    strides: list[int],
    mode: str,
    pads: list[int] | None,
    ceil: bool,
    kind: str,
    include: bool,
) -> Value:
    one = len(kernel) == 1
    if one:
        x, kernel, strides = insert_axis(ctx, x, 2), [1, *kernel], [1, *strides]
        pads = None if pads is None else [0, pads[0], 0, pads[1]]
    count = None if kind == "MAXPOOL" else "INCLUDE_PADDING" if include else "EXCLUDE_PADDING"
    out = ctx.op(
        "Pooling", x, kernelY=kernel[0], kernelX=kernel[1], strideY=strides[0], strideX=strides[1], padType=mode,
        pads=pads, ceilModel=ceil, type=kind, countType=count,
    )  # fmt: skip
    return drop_axis(ctx, out, 2) if one else out


@onnx_op("GlobalAveragePool", "GlobalMaxPool")
def global_pool(ctx: Context, node: OnnxNode) -> Value:
    x = node.input(0)
    kind = "MAXPOOL" if node.op == "GlobalMaxPool" else "AVEPOOL"
    return ctx.op("Pooling" if ctx.rank(x) == 4 else "Pooling3D", x, type=kind, isGlobal=True)


@onnx_op("GlobalLpPool")
def global_lp_pool(ctx: Context, node: OnnxNode) -> Value:
    return ctx.op("GlobalLpPool", node.input(0), p=node.int_attr("p", 2))


@onnx_op("MaxUnpool", operands=Operands(lists=(2,)))
def max_unpool(ctx: Context, node: OnnxNode) -> Value:
    kernel = node.ints_attr("kernel_shape") or []
    return ctx.op(
        "MaxUnpool", node.input(0), node.input(1), node.optional(2), kernel_shape=kernel,
        strides=ints(node, "strides", len(kernel), 1), pads=ints(node, "pads", 2 * len(kernel), 0),
    )  # fmt: skip
