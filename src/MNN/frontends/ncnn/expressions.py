"""Sizes that are computed from those of operands: ``*(0w,2),-1,//(0c,4)``."""

from __future__ import annotations

import math
import re
from collections.abc import Callable

from MNN.frontends.ncnn.context import Context, Size
from MNN.frontends.ncnn.node import NcnnNode
from MNN.ir.dtype import DType
from MNN.ir.graph import Value

_SIZE = re.compile(r"(\d)([whdc])")
_MAX = 4096
_GRAPH = {"+": "ADD", "-": "SUB", "*": "MUL", "//": "FLOORDIV", "max": "MAXIMUM", "min": "MINIMUM"}
Number = int | float | Value


def evaluated(ctx: Context, node: NcnnNode, text: str) -> list[Size]:
    """The integers of an expression in prefix form; ``0w`` is the width of operand 0. Sizes that are open are computed
    by the graph."""
    if len(text) > _MAX:
        raise node.malformed(f"an expression of {len(text)} characters")
    stack: list[Number] = []
    for word in reversed([w for w in re.split(r"[(),]", text) if w]):
        size = _SIZE.fullmatch(word)
        if size:
            stack.append(ctx.size(node.input(int(size[1])), size[2]))
        elif word in _GRAPH:
            stack.append(_pair(ctx, node, word, _taken(node, stack, text), _taken(node, stack, text)))
        elif word in _ROUNDINGS or word in ("abs", "neg", "square"):
            stack.append(_single(ctx, node, word, _taken(node, stack, text)))
        else:
            stack.append(_number(node, word))
    return [n if isinstance(n, Value) else int(n) for n in reversed(stack)]


_ROUNDINGS: dict[str, Callable[[float], int]] = {"trunc": math.trunc, "ceil": math.ceil, "floor": math.floor}


def _taken(node: NcnnNode, stack: list[Number], text: str) -> Number:
    if not stack:
        raise node.malformed(f"the expression '{text}' ends too early")
    return stack.pop()


def _number(node: NcnnNode, word: str) -> int | float:
    try:
        return int(word) if re.fullmatch(r"-?\d{1,15}", word) else float(word)
    except ValueError:
        raise node.unsupported(f"'{word[:40]}' in an expression") from None


def _pair(ctx: Context, node: NcnnNode, word: str, x: Number, y: Number) -> Number:
    if isinstance(x, Value) or isinstance(y, Value):
        if isinstance(x, float) or isinstance(y, float):
            raise node.unsupported(f"'{word}' of an open size and a fraction in an expression")
        left, right = (v if isinstance(v, Value) else ctx.const(v, DType.I64) for v in (x, y))
        out = ctx.op("BinaryOp", left, right, opType=_GRAPH[word])
        out.dtype, out.shape = DType.I64, ()
        return out
    if word == "//":
        if y == 0:
            raise node.malformed("an expression divides by 0")
        return math.floor(x / y) if isinstance(x, float) or isinstance(y, float) else int(x / y)
    return {"+": x + y, "-": x - y, "*": x * y, "max": max(x, y), "min": min(x, y)}[word]


def _single(ctx: Context, node: NcnnNode, word: str, x: Number) -> Number:
    if isinstance(x, Value):
        if word in _ROUNDINGS:
            return x
        raise node.unsupported(f"'{word}' of an open size in an expression")
    if word in _ROUNDINGS:
        return _ROUNDINGS[word](x)
    return abs(x) if word == "abs" else -x if word == "neg" else x * x
