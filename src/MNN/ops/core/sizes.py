"""Integer arithmetic of computations on shapes, by the names that the operators have in a graph."""

from __future__ import annotations

from collections.abc import Callable

from MNN.ir import symbolic
from MNN.ir.symbolic import Size

_ARITHMETIC: dict[str, Callable[[Size, Size], Size]] = {
    "ADD": lambda x, y: symbolic.add(x, y),
    "SUB": symbolic.subtract,
    "MUL": lambda x, y: symbolic.multiply(x, y),
    "FLOORDIV": symbolic.floor_divide,
    "FLOORMOD": symbolic.modulo,
    "MAXIMUM": symbolic.maximum,
    "MINIMUM": symbolic.minimum,
}
COMPARISONS = {"GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL", "EQUAL", "NOTEQUAL"}


def combine(kind: str, x: Size, y: Size) -> Size:
    """The result of a BinaryOp on two elements of integer tensors; truth as 0 or 1, None when it is not known.

    ``DIV`` and ``REALDIV`` of integers round toward zero, ``FLOORDIV`` rounds down; ``MOD`` and ``REMAINDER``, which
    differ in their signs, are followed where nothing is negative.
    """
    if kind in COMPARISONS:
        return _compare(kind, x, y)
    if kind in ("DIV", "REALDIV"):
        if isinstance(x, int) and isinstance(y, int):
            return None if y == 0 else abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)
        lowest = symbolic.lower_bound(x)
        return symbolic.floor_divide(x, y) if y == 1 or (lowest is not None and lowest >= 0) else None
    if kind in ("MOD", "REMAINDER"):
        lows = symbolic.lower_bound(x), symbolic.lower_bound(y)
        return symbolic.modulo(x, y) if all(v is not None and v >= 0 for v in lows) else None
    rule = _ARITHMETIC.get(kind)
    return None if rule is None else rule(x, y)


def _compare(kind: str, x: Size, y: Size) -> Size:
    if kind in ("LESS", "LESS_EQUAL"):
        return _compare("GREATER" + kind.removeprefix("LESS"), y, x)
    over, under = (symbolic.lower_bound(symbolic.subtract(a, b)) for a, b in ((x, y), (y, x)))
    above, below = over is not None and over > 0, under is not None and under > 0
    equal = x is not None and x == y
    if kind in ("EQUAL", "NOTEQUAL"):
        return int(equal == (kind == "EQUAL")) if equal or above or below else None
    if kind == "GREATER":
        return 1 if above else 0 if under is not None and under >= 0 else None
    return 1 if over is not None and over >= 0 else 0 if below else None
