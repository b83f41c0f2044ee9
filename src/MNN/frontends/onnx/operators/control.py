"""Control flow: nodes with subgraphs."""

from __future__ import annotations

from MNN.frontends.onnx.context import Context
from MNN.frontends.onnx.node import OnnxNode
from MNN.frontends.onnx.operands import Operands
from MNN.frontends.onnx.registry import onnx_op
from MNN.ir.dtype import DType
from MNN.ir.graph import Graph, Value

UNROLLED = 32
"""Loops of at most this many turns, known beforehand, are lowered in place."""


@onnx_op("If", operands=Operands(singles=(0,)))
def branch(ctx: Context, node: OnnxNode) -> list[Value]:
    graphs = {f"{key}_graph": ctx.subgraph(node.graph_attr(f"{key}_branch")) for key in ("then", "else")}
    return ctx.emit("If", [node.input(0)], len(node.outputs), **graphs)


@onnx_op("Loop", operands=Operands(singles=(0, 1)))
def loop(ctx: Context, node: OnnxNode) -> list[Value]:
    proto = node.graph_attr("body")
    body = ctx.subgraph(proto)
    most, given = node.optional(0), node.optional(1)
    turns, condition = ctx.constant_ints(most), ctx.constant(given)
    always = given is None or (condition is not None and bool(condition.reshape(-1)[0]))
    endless = always and _keeps_going(body)
    if endless and most is None:
        raise node.unsupported("a loop that never ends", "give it a trip count or a condition")
    kinds = {v.type.WhichOneof("value") for v in (*proto.input, *proto.output) if v.HasField("type")}
    short = endless and turns is not None and turns[0] <= UNROLLED
    op = "UnrolledLoop" if short or kinds & {"sequence_type", "optional_type"} else "Loop"
    return ctx.emit(op, [most, given, *node.inputs[2:]], len(node.outputs), body=body)


def _keeps_going(body: Graph) -> bool:
    """Whether a body's condition output is plainly its input, or true."""
    made = body.producers()
    value = body.outputs[0] if body.outputs else None
    while value is not None and value in made and made[value].op == "Identity":
        value = made[value].inputs[0]
    if value is None:
        return False
    return bool(value.array().reshape(-1)[0]) if value.is_const else len(body.inputs) > 1 and value is body.inputs[1]


@onnx_op("Scan")
def scan_8(ctx: Context, node: OnnxNode) -> list[Value]:
    """One scan of the newer kind for each example of the batch, which was the first axis then."""
    count = node.int_attr("num_scan_inputs")
    reverse = node.ints_attr("directions", None)
    given = node.inputs[1:]
    batch = next((v.shape[0] for v in given if v is not None and v.shape), None)
    if node.optional(0) is not None or not isinstance(batch, int) or batch > UNROLLED or None in given:
        what = "Scan of opset 8 with sequence lengths, or a batch that is large or open,"
        raise node.unsupported(what, "use opset 9 or newer")
    rows = []
    for example in range(batch):
        at = ctx.const(example, DType.I32)
        inputs = [ctx.op("GatherV2", v, at, ctx.const(0, DType.I32)) for v in given]
        attrs = {"numScanInputs": count, "inputReverse": reverse}
        rows.append(ctx.emit("Scan", inputs, len(node.outputs), body=ctx.subgraph(node.graph_attr("body")), **attrs))
    return [ctx.op("Pack", *parts, axis=0) for parts in zip(*rows, strict=True)]


@onnx_op("Scan", since=9)
def scan(ctx: Context, node: OnnxNode) -> list[Value]:
    body, count = ctx.subgraph(node.graph_attr("body")), node.int_attr("num_scan_inputs")
    attrs: dict[str, object] = {
        "numScanInputs": count,
        "inputAxes": node.ints_attr("scan_input_axes", None),
        "outputAxes": node.ints_attr("scan_output_axes", None),
        "inputReverse": node.ints_attr("scan_input_directions", None),
        "outputReverse": node.ints_attr("scan_output_directions", None),
    }
    first = node.inputs[len(node.inputs) - count] if 0 < count <= len(node.inputs) else None
    axes = node.ints_attr("scan_input_axes", None) or [0]
    length = first.shape[axes[0]] if first is not None and first.shape and -1 < axes[0] < len(first.shape) else None
    op = "UnrolledScan" if isinstance(length, int) and length <= UNROLLED else "Scan"
    return ctx.emit(op, node.inputs, len(node.outputs), body=body, **attrs)
