"""What a subgraph of one operation stands for: how a reduction or a scatter combines two numbers, how a sort compares
them."""

from __future__ import annotations

from MNN.frontends.tflite.context import Context
from MNN.frontends.tflite.file import Operation, Subgraph
from MNN.frontends.tflite.node import TfliteNode

_REDUCTIONS = {
    "STABLEHLO_ADD": "SUM", "ADD": "SUM", "STABLEHLO_MULTIPLY": "PROD", "MUL": "PROD", "STABLEHLO_MAXIMUM": "MAXIMUM",
    "MAXIMUM": "MAXIMUM", "STABLEHLO_MINIMUM": "MINIMUM", "MINIMUM": "MINIMUM", "STABLEHLO_AND": "ALL",
    "LOGICAL_AND": "ALL", "STABLEHLO_OR": "ANY", "LOGICAL_OR": "ANY",
}  # fmt: skip
COMBINING = {"SUM": "ADD", "PROD": "MUL", "MAXIMUM": "MAXIMUM", "MINIMUM": "MINIMUM"}
"""The operation on two numbers that a reduction repeats."""
_DESCENDING = {"GREATER": True, "GREATER_EQUAL": True, "LESS": False, "LESS_EQUAL": False}
_DIRECTIONS = {"GT": True, "GE": True, "LT": False, "LE": False}


def combiner(ctx: Context, node: TfliteNode, option: str) -> str:
    """The reduction that a subgraph of two numbers stands for."""
    body = ctx.model.file.subgraphs[node.number(option)]
    found = _single(body)
    kind = None if found is None or sorted(found.inputs) != sorted(body.inputs) else _REDUCTIONS.get(found.op)
    if kind is None:
        raise node.unsupported(f"a combination by {_listed(body)}", "combine by one operation")
    return kind


def replaces(ctx: Context, node: TfliteNode, option: str) -> bool:
    """Whether a subgraph of an old and a new number gives the new one."""
    body = ctx.model.file.subgraphs[node.number(option)]
    return not body.operations and body.outputs == body.inputs[1:]


def comparator(ctx: Context, node: TfliteNode, option: str) -> tuple[int, bool]:
    """What a subgraph of two entries (the first tensor's numbers, the second's...) compares: which tensor, and
    whether the larger comes first."""
    body = ctx.model.file.subgraphs[node.number(option)]
    found = _single(body)
    down: bool | None = None
    if found is not None and found.op == "STABLEHLO_COMPARE" and found.options is not None:
        down = _DIRECTIONS.get(str(found.options.comparison_direction).rpartition("_")[2])
    elif found is not None:
        down = _DESCENDING.get(found.op)
    if found is None or down is None or not set(found.inputs) <= set(body.inputs):
        raise node.unsupported(f"a comparison by {_listed(body)}", "compare by one operation")
    first, second = (body.inputs.index(i) for i in found.inputs)
    if first // 2 != second // 2 or first == second:
        raise node.unsupported("a comparison of different tensors")
    return first // 2, down == (first < second)


def _single(body: Subgraph) -> Operation | None:
    """Its only operation, where that gives its result."""
    if len(body.operations) != 1 or len(body.operations[0].inputs) != 2:
        return None
    return body.operations[0] if body.operations[0].outputs == body.outputs else None


def _listed(body: Subgraph) -> str:
    return ", ".join(o.op for o in body.operations) or "nothing"
