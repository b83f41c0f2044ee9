"""Elementwise operators with two operands, choice, and limits."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from MNN.errors import ShapeError
from MNN.ir.dtype import DType
from MNN.ir.graph import Node
from MNN.ir.prims import Tensor
from MNN.ir.scalar import BodyBuilder
from MNN.ir.shape import broadcast
from MNN.ops.core.base import Operator, register
from MNN.ops.core.builder import Builder
from MNN.ops.core.common import agree
from MNN.ops.core.operands import operand
from MNN.ops.core.sizes import COMPARISONS, combine
from MNN.ops.inference import infer, symbolic_shape_check

Scalar = Callable[[BodyBuilder, int, int], int]


def _plain(op: str) -> Scalar:
    return lambda b, x, y: b(op, x, y)


def _squared_difference(b: BodyBuilder, x: int, y: int) -> int:
    d = b("sub", x, y)
    return b("mul", d, d)


def _truth(op: str) -> Scalar:
    """A logical operation; on numbers the result is 0 or 1 of their dtype."""

    def body(b: BodyBuilder, x: int, y: int) -> int:
        dtype = b.dtype(x)
        return b.cast(b(op, b.cast(x, DType.BOOL), b.cast(y, DType.BOOL)), dtype)

    return body


def _mod(b: BodyBuilder, x: int, y: int) -> int:
    """The official engine's MOD: C's fmod on floats, the divisor's sign on integers."""
    return b("rem" if b.dtype(x).is_float else "mod", x, y)


def _shift_right(b: BodyBuilder, x: int, y: int) -> int:
    """Arithmetic on signed integers: shifting by the width or more (or by less than nothing) leaves the sign."""
    if b.dtype(x).is_signed:
        most = b.const(b.dtype(x).size * 8 - 1, b.dtype(y))
        y = b("select", b("lt", y, b.const(0, b.dtype(y))), most, b("min", y, most))
    return b("shr", x, y)


def _mul_silu(b: BodyBuilder, x: int, y: int) -> int:
    one = b.const(1.0, b.dtype(y))
    return b("mul", x, b("mul", y, b("recip", b("add", one, b("exp", b("neg", y))))))


_BINARY: dict[str, Scalar] = {
    "ADD": _plain("add"),
    "SUB": _plain("sub"),
    "MUL": _plain("mul"),
    "DIV": _plain("div"),
    "REALDIV": _plain("div"),
    "MAX_TEMP": _plain("max"),
    "MIN_TEMP": _plain("min"),
    "POW": _plain("pow"),
    "MINIMUM": _plain("min"),
    "MAXIMUM": _plain("max"),
    "GREATER": _plain("gt"),
    "GREATER_EQUAL": _plain("ge"),
    "LESS": _plain("lt"),
    "LESS_EQUAL": _plain("le"),
    "EQUAL": _plain("eq"),
    "NOTEQUAL": _plain("ne"),
    "FLOORDIV": _plain("floordiv"),
    "FLOORMOD": _plain("mod"),
    "MOD": _mod,
    "SquaredDifference": _squared_difference,
    "ATAN2": _plain("atan2"),
    "LOGICALOR": _truth("or"),
    "LOGICALXOR": _truth("xor"),
    "BITWISE_AND": _plain("and"),
    "BITWISE_OR": _plain("or"),
    "BITWISE_XOR": _plain("xor"),
    "LEFTSHIFT": _plain("shl"),
    "RIGHTSHIFT": _shift_right,
    "MUL_SILU": _mul_silu,
}
_NUMBERS_ONLY = {"ATAN2", "MUL_SILU"}
_BITS_ONLY = {"BITWISE_AND", "BITWISE_OR", "BITWISE_XOR", "LEFTSHIFT", "RIGHTSHIFT"}
_RELU = 1


@register("BinaryOp")
class BinaryOp(Operator):
    """``z = f(x, y)`` with numpy broadcasting; ``opType`` names f. Comparisons give booleans.

    Integer DIV and REALDIV truncate. POW takes an exponent of another dtype; the result has the base's.
    ``activationType`` 1 applies ReLU to the result.
    """

    broadcasts = True
    repeats = True
    attributes = {"opType": "ADD", "T": "DT_FLOAT", "activationType": 0}

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        x, y = operand(b, inputs, 0), operand(b, inputs, 1)
        kind = self.str_attr(node, "opType")
        if kind not in _BINARY:
            raise ShapeError(f"{b.where}: opType {kind} is not one of {', '.join(_BINARY)}")
        if DType.STR in (x.dtype, y.dtype):
            return [_compare_strings(b, kind, x, y)]
        if kind == "POW" and x.dtype is not y.dtype:
            return [_mixed_power(b, x, y)]
        x, y = agree(b, x, y)
        if kind in _BITS_ONLY and not (x.dtype.is_int or x.dtype is DType.BOOL):
            raise ShapeError(f"{b.where}: {kind} needs integers, found {x.dtype.value}")
        if kind in _NUMBERS_ONLY and not x.dtype.is_float:
            raise ShapeError(f"{b.where}: {kind} needs floats, found {x.dtype.value}")
        out = b.map(_BINARY[kind], x, y)
        activation = self.int_attr(node, "activationType")
        if activation not in (0, _RELU):
            raise ShapeError(f"{b.where}: activationType {activation} is unknown, expected 0 (none) or 1 (ReLU)")
        return [b.op("max", out, b.like(0, out)) if activation else out]


def _mixed_power(b: Builder, x: Tensor, y: Tensor) -> Tensor:
    if y.dtype.is_float and not x.dtype.is_float:
        return b.cast(b.op("pow", b.cast(x, y.dtype), y), x.dtype)
    return b.op("pow", x, b.cast(y, x.dtype))


def _compare_strings(b: Builder, kind: str, x: Tensor, y: Tensor) -> Tensor:
    if kind not in ("EQUAL", "NOTEQUAL") or x.dtype is not y.dtype:
        raise ShapeError(f"{b.where}: {kind} is not defined on strings")
    shape = broadcast(x.shape, y.shape, where=b.where)
    return b.host(
        f"string {kind}",
        lambda a: [(a[0] == a[1]) if kind == "EQUAL" else (a[0] != a[1])],
        [x, y],
        (DType.BOOL, shape),
    )[0]


@register("Remainder")
class Remainder(Operator):
    """``x - trunc(x / y) * y``: the remainder with the dividend's sign (C's ``%`` and ``fmod``)."""

    broadcasts = True
    in_mnn = False

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        return [b.op("rem", *agree(b, operand(b, inputs, 0), operand(b, inputs, 1)))]


@register("Select")
class Select(Operator):
    """``condition ? x : y`` elementwise, with numpy broadcasting of all three."""

    broadcasts = True

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        condition = b.cast(operand(b, inputs, 0, "condition"), DType.BOOL)
        x, y = agree(b, operand(b, inputs, 1), operand(b, inputs, 2))
        if x.dtype is DType.STR:
            shape = broadcast(condition.shape, x.shape, y.shape, where=b.where)
            return b.host("select strings", lambda a: [np.where(*a)], [condition, x, y], (DType.STR, shape))
        return [b.op("select", condition, x, y)]


@infer.rule(BinaryOp, Remainder)
def _infer_binary(h: infer.ShapeInference, node: Node) -> list[infer.InferredShape]:
    x, y = infer.operand(node, 0), infer.operand(node, 1)
    kind = str(node.attrs.get("opType", "ADD")) if node.op == "BinaryOp" else "REMAINDER"
    dtype = DType.BOOL if kind in COMPARISONS else x.dtype if kind == "POW" else x.dtype or y.dtype
    _follow_arithmetic(h, node, kind)
    return [(dtype, infer.broadcast([infer.sizes(x), infer.sizes(y)]))]


def _follow_arithmetic(h: infer.ShapeInference, node: Node, kind: str) -> None:
    a, b = h.ints(node.inputs[0]), h.ints(node.inputs[1])
    if a is None or b is None or (1 not in (len(a), len(b)) and len(a) != len(b)):
        return
    count = max(len(a), len(b)) if a and b else 0
    h.numbers[node.outputs[0]] = [combine(kind, a[i % len(a)], b[i % len(b)]) for i in range(count)]


@infer.rule(Select)
def _infer_select(h: infer.ShapeInference, node: Node) -> list[infer.InferredShape]:
    values = [infer.operand(node, i) for i in range(3)]
    which, yes, no = (h.ints(v) for v in values)
    if which and yes and no and all(isinstance(c, int) for c in which):
        count = max(len(which), len(yes), len(no))
        if all(len(part) in (1, count) for part in (which, yes, no)):
            h.numbers[node.outputs[0]] = [
                (yes if which[i % len(which)] else no)[i % len(yes if which[i % len(which)] else no)]
                for i in range(count)
            ]
    return [(values[1].dtype or values[2].dtype, infer.broadcast([infer.sizes(v) for v in values]))]


@symbolic_shape_check.rule(BinaryOp, Remainder, Select)
def _fits_elementwise(node: Node, shapes: list[symbolic_shape_check.Sizes | None]) -> bool:
    return symbolic_shape_check.broadcasts(shapes)
