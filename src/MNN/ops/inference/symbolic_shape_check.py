"""What cannot fit whatever the names among the sizes stand for: numbers that contradict each other.

Rules for :mod:`MNN.ops.inference.shape_check`. They say nothing about sizes that are names or unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from MNN.ir.graph import Node
from MNN.ir.symbolic import Size
from MNN.ops.core.base import Operator, operators

Sizes = tuple[Size, ...]
Rule = Callable[[Node, "list[Sizes | None]"], bool]
_PAIRS: dict[type[Operator], Rule] = {}


def contradiction(node: Node) -> str:
    """What is wrong with the operands of a node, in words; empty where nothing is certain."""
    op = operators().get(node.op)
    rule = None if op is None else _PAIRS.get(type(op))
    if rule is None:
        return ""
    shapes: list[Sizes | None] = [None if v is None or v.shape is None else tuple(v.shape) for v in node.inputs]
    try:
        fits = rule(node, shapes)
    except LookupError:  # operands are missing, which lowering says
        return ""
    if fits:
        return ""
    listed = " and ".join(
        f"'{v.name}' [{', '.join(map(str, s))}]"
        for v, s in zip(node.inputs, shapes, strict=True)
        if v is not None and s is not None
    )
    return f"{node.op} '{node.name}': {listed} do not fit together"


def rule(*classes: type[Operator]) -> Callable[[Rule], Rule]:
    """Enters whether operands of one or more operators may fit; it stands beside them."""

    def add(fn: Rule) -> Rule:
        _PAIRS.update(dict.fromkeys(classes, fn))
        return fn

    return add


def differ(a: Size, b: Size) -> bool:
    """Whether two sizes are certainly not the same."""
    return isinstance(a, int) and isinstance(b, int) and a != b


def broadcasts(shapes: Sequence[Sizes | None]) -> bool:
    known = [s for s in shapes if s is not None]
    rank = max((len(s) for s in known), default=0)
    for i in range(1, rank + 1):
        if len({s[-i] for s in known if len(s) >= i and isinstance(s[-i], int) and s[-i] != 1}) > 1:
            return False
    return True


def multiplies(a: Sizes | None, b: Sizes | None, transposed: Sequence[bool] = (False, False)) -> bool:
    if a is None or b is None:
        return True
    if not a or not b:
        return False
    if transposed[0] and len(a) > 1:
        a = (*a[:-2], a[-1], a[-2])
    if transposed[1] and len(b) > 1:
        b = (*b[:-2], b[-1], b[-2])
    return not differ(a[-1], b[-2] if len(b) > 1 else b[-1]) and broadcasts([a[:-2], b[:-2]])
