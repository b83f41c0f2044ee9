"""Conditions on sizes of inputs that a program was exported under."""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from MNN.errors import ShapeError
from MNN.ir.graph import Node
from MNN.ir.prims import Tensor
from MNN.ops.core.base import Operator, register
from MNN.ops.core.builder import Builder
from MNN.ops.core.operands import operand
from MNN.ops.inference import infer

MAX_TEXT = 4000
"""Characters of one condition."""
_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod, ast.Div: operator.truediv,
}  # fmt: skip
_COMPARED: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}  # fmt: skip
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "max": max, "min": min, "float": float, "trunc": math.trunc, "floor": math.floor, "ceil": math.ceil,
    "sqrt": math.sqrt,
}  # fmt: skip


class UnknownConditionError(ValueError):
    """A condition that says something else than is known here."""


def holds(text: str, sizes: Callable[[int, int], int]) -> bool:
    """Whether a condition is true: Python's syntax of comparisons, ``and``, ``or``, ``not``, arithmetic, ``max``,
    ``min``, ``float``, ``trunc``, ``floor``, ``ceil`` and ``sqrt``, upon numbers and ``s0[1]``, the size of axis 1 of
    the first operand, which ``sizes(0, 1)`` gives. Raises :class:`UnknownConditionError` for other ones."""
    if len(text) > MAX_TEXT:
        raise UnknownConditionError("it is too long")
    try:
        return bool(_evaluated(ast.parse(text, mode="eval").body, sizes))
    except (SyntaxError, RecursionError, MemoryError, TypeError, ArithmeticError, LookupError) as error:
        raise UnknownConditionError(str(error)) from error


def _evaluated(node: ast.expr, sizes: Callable[[int, int], int]) -> Any:
    if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
        return node.value
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and isinstance(node.slice, ast.Constant):
        name, axis = node.value.id, node.slice.value
        if re.fullmatch(r"s\d{1,4}", name) and isinstance(axis, int):
            return sizes(int(name[1:]), axis)
    if isinstance(node, ast.BoolOp):
        first = all if isinstance(node.op, ast.And) else any
        return first(_evaluated(v, sizes) for v in node.values)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.Not)):
        value = _evaluated(node.operand, sizes)
        return -value if isinstance(node.op, ast.USub) else not value
    if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
        return _BINARY[type(node.op)](*(_evaluated(v, sizes) for v in (node.left, node.right)))
    if isinstance(node, ast.Compare):
        values = [_evaluated(v, sizes) for v in (node.left, *node.comparators)]
        return all(_COMPARED[type(op)](x, y) for op, x, y in zip(node.ops, values, values[1:], strict=False))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _FUNCTIONS:
        return _FUNCTIONS[node.func.id](*(_evaluated(v, sizes) for v in node.args))
    raise UnknownConditionError(ast.unparse(node)[:200])


def check(conditions: str, names: str, shapes: Mapping[str, Sequence[int]]) -> None:
    """Raises :class:`ShapeError` where conditions, one a line, are not true of the shapes of the inputs ``names``."""
    called = names.splitlines()
    if any(name not in shapes for name in called):  # a part of the model, with other inputs
        return
    for text in conditions.splitlines():
        try:
            found = holds(text, lambda at, axis: shapes[called[at]][axis])
        except UnknownConditionError as error:
            raise ShapeError(
                f"the condition '{text[:200]}' on sizes of inputs cannot be read ({error}); convert the model again"
            ) from error
        if not found:
            wanted = re.sub(r"\bs(\d+)\[", lambda found: f"{called[int(found[1])]}.shape[", text)[:300]
            given = ", ".join(f"'{name}' of {list(shapes[name])}" for name in called)
            raise ShapeError(
                f"the program was exported for sizes with {wanted} alone, and is given {given}; give such sizes, or "
                "export it with examples of these"
            )


@register("SizeConditions")
class SizeConditions(Operator):
    """Its first operand, where the ``conditions``, one a line (see :func:`holds`), are true of the operands' sizes. The
    program may mean something else for other sizes, and what it is here was found for these. ``names``, one a line, are
    those of the operands, inputs of the graph. Sessions look at the sizes that they are given, see :func:`check`; plans
    are made for ranges of sizes, of which some may be for nobody."""

    in_mnn = False
    attributes = {"conditions": "", "names": ""}

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        return [operand(b, inputs, 0)]


@infer.rule(SizeConditions)
def _infer_size_conditions(h: infer.ShapeInference, node: Node) -> list[infer.InferredShape]:
    x = infer.operand(node, 0)
    infer.pass_numbers(h, node)
    return [(x.dtype, infer.sizes(x))]
