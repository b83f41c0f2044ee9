"""What ONNX has no operator for, and a Scan along an axis computes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from onnx import GraphProto, helper

from MNN.frontends.onnx_export.exporter import CODES, Exporter, exports
from MNN.frontends.onnx_export.operators.indexing import axis_of
from MNN.ir.dtype import DType
from MNN.ir.graph import Node

Typed = tuple[str, DType]
Body = Callable[[Exporter, list[str]], Sequence[str]]


def scanned(
    e: Exporter, states: Sequence[Typed], lines: Sequence[Typed], body: Body, axes: Sequence[int], reverse: bool = False
) -> list[str]:
    """A Scan: ``body`` gets the names of states and of slices, and gives those of the new states, then what each turn
    gives, which is of the first state's type and lies along the first axis of ``axes``."""
    inner = Exporter(e.shared)
    inner.base = e.base
    given = [(e.shared.unique(f"{e.base}/turn"), dtype) for _, dtype in (*states, *lines)]
    found = [inner.op("Identity", name) for name in body(inner, [name for name, _ in given])]
    graph = GraphProto(name="turn")
    graph.node.extend(inner.nodes)
    graph.input.extend(helper.make_tensor_value_info(name, CODES[dtype], None) for name, dtype in given)
    kinds = [dtype for _, dtype in states] + [states[0][1]] * (len(found) - len(states))
    graph.output.extend(
        helper.make_tensor_value_info(name, CODES[dtype], None) for name, dtype in zip(found, kinds, strict=True)
    )
    extra = len(found) - len(states)
    return e.emit(
        "Scan", [name for name, _ in (*states, *lines)], len(found), body=graph, num_scan_inputs=len(lines),
        scan_input_axes=list(axes), scan_output_axes=list(axes[:extra]) or None,
        scan_input_directions=[int(reverse)] * len(lines), scan_output_directions=[int(reverse)] * extra or None,
    )  # fmt: skip


@exports("CumProd")
def cumulative_product(e: Exporter, node: Node) -> str:
    x, exclusive = e.required(node, 0), e.flag(node, "exclusive")
    rank, dtype = e.rank(x), e.dtype(x)
    axis = axis_of(e, node, 1) % max(rank, 1)
    sizes = e.op("Gather", e.op("Shape", e.name(x)), e.const([i for i in range(rank) if i != axis], DType.I64))
    start = e.op("Expand", e.like(1, x), sizes)

    def turn(inner: Exporter, given: list[str]) -> list[str]:
        product = inner.op("Mul", *given)
        return [product, given[0] if exclusive else product]

    return scanned(e, [(start, dtype)], [(e.name(x), dtype)], turn, [axis], e.flag(node, "reverse"))[1]


@exports("RoutedMatMul")
def routed_product(e: Exporter, node: Node) -> str:
    """One matrix after the other is multiplied by all rows, of which those are kept that are meant: as much room as the
    rows take, where a matrix for each row would be copied otherwise."""
    x, w = e.required(node, 0), e.required(node, 1)
    dtype, count = e.dtype(x), e.integer(node, "count")
    three = e.op("Concat", e.const([count, -1]), e.op("Shape", e.name(w), start=1), axis=0)
    matrices = e.op("Reshape", e.name(w), three)
    index = e.op("Expand", e.i64(node, 2), e.op("Shape", e.name(x), end=-1))
    sizes = e.op("Concat", e.op("Shape", index), e.op("Shape", matrices, start=1, end=2), axis=0)
    chosen = e.op("Unsqueeze", index, e.const([-1]))

    def turn(inner: Exporter, given: list[str]) -> list[str]:
        product = inner.op("MatMul", e.name(x), inner.op("Transpose", given[1], perm=[1, 0]))
        return [inner.op("Where", inner.op("Equal", chosen, given[2]), product, given[0])]

    lines = [(matrices, dtype), (e.const(list(range(count))), DType.I64)]
    return scanned(e, [(e.op("Expand", e.like(0, x), sizes), dtype)], lines, turn, [0, 0])[0]
