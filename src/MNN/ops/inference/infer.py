"""Element types and shapes of a graph's values as far as they follow without running.

These are hints for front ends and passes: sizes may be names, and what does not follow stays unknown. What decides is
always the lowering with real sizes. Unlike general shape inference this never computes with the sizes a model claims.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from MNN.ir.dtype import DType
from MNN.ir.graph import Graph, Node, Value
from MNN.ir.shape import static
from MNN.ir.symbolic import Function, Size, multiply
from MNN.ops.core.base import Operator, operators
from MNN.ops.core.datatypes import from_data_type
from MNN.ops.inference.derived import derived

_log = logging.getLogger(__name__)
Sizes = tuple[Size, ...]
InferredShape = tuple[DType | None, "Sizes | None"]
Rule = Callable[["ShapeInference", Node], "list[InferredShape]"]
SMALL = 64
"""Integer tensors up to this many elements are followed: shapes are computed from them."""
_RULES: dict[type[Operator], Rule] = {}


def rule(*classes: type[Operator]) -> Callable[[Rule], Rule]:
    """Enters the rule of one or more operators. It stands beside them, and only where what their lowering tells is not
    enough: of operands that are half known, of integers that sizes are computed from, of sizes that comparisons
    decide."""

    def add(fn: Rule) -> Rule:
        _RULES.update(dict.fromkeys(classes, fn))
        return fn

    return add


def rule_of(name: str) -> Rule | None:
    """The rule of an operator; None for those whose sizes follow from their lowering alone."""
    op = operators().get(name)
    found = None if op is None else _RULES.get(type(op))
    return _same if found is None and op is not None and op.keeps_shape else found


def _same(h: ShapeInference, node: Node) -> list[InferredShape]:
    x = operand(node, 0)
    return [(x.dtype, sizes(x))]


class ShapeInference:
    """Annotates nodes in order. ``numbers`` holds small integer tensors, with names where sizes have them."""

    def __init__(self) -> None:
        self.numbers: dict[Value, list[Size]] = {}

    def annotate(self, node: Node) -> None:
        """Sets dtype and shape of the node's outputs where they are unknown."""
        for value, (dtype, shape) in zip(node.outputs, self.infer(node), strict=False):
            value.dtype = value.dtype or dtype
            if value.shape is None and shape is not None:
                value.shape = tuple(f"{value.name}.{i}" if d is None else d for i, d in enumerate(shape))

    def infer(self, node: Node) -> list[InferredShape]:
        """What follows for the node's outputs from its inputs; nodes must be put in order."""
        found: list[InferredShape] = []
        rule = rule_of(node.op)
        try:
            found = rule(self, node) if rule is not None else []
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            # nothing follows for a malformed node; lowering will say what is wrong with it
            _log.debug("no shape for %s: %s", node, error)
        if len(found) >= len(node.outputs) and all(d is not None and s is not None and None not in s for d, s in found):
            return found
        if rule is None or all(static(v.shape) is not None for v in node.inputs if v is not None):
            made = derived(node, self.ints)
            return found if made is None else list(made)
        return found

    def ints(self, value: Value | None) -> list[Size] | None:
        """The numbers of a small integer tensor, flat, as far as they are known."""
        if value is None:
            return None
        if value.is_const and value.data is not None:
            data = value.array()
            return [int(v) for v in data.reshape(-1)] if data.size <= SMALL and data.dtype.kind in "iub" else None
        found = self.numbers.get(value)
        return None if found is None else list(found)

    def known_ints(self, value: Value | None) -> list[int] | None:
        """Like :meth:`ints`, only when all are numbers."""
        found = self.ints(value)
        return (
            None
            if found is None or not all(isinstance(v, int) for v in found)
            else [int(v) for v in found if v is not None]
        )


def annotate(graph: Graph) -> None:
    """Annotates every node of a graph (subgraphs after their node's inputs)."""
    shape_inference = ShapeInference()
    for node in graph.nodes:
        for _, sub in node.subgraphs():
            annotate(sub)
        shape_inference.annotate(node)


def operand(node: Node, index: int) -> Value:
    """A required input; ``LookupError`` when it is left out."""
    value = node.inputs[index] if index < len(node.inputs) else None
    if value is None:
        raise LookupError(f"input {index} is missing")
    return value


def ints(node: Node, key: str) -> list[int]:
    found = node.attrs.get(key)
    return [] if found is None else [int(v) for v in found]  # type: ignore[attr-defined]


def number(node: Node, key: str, default: int = 0) -> int:
    found = node.attrs.get(key)
    return default if found is None else int(found)  # type: ignore[call-overload]


def sizes(value: Value) -> Sizes | None:
    return None if value.shape is None else tuple(value.shape)


def axis_of(axis: int, rank: int) -> int:
    """A non-negative axis; ``LookupError`` when it lies outside."""
    if not -rank <= axis < rank:
        raise LookupError(f"axis {axis} of rank {rank}")
    return axis % rank


def broadcast(shapes: Sequence[Sizes | None]) -> Sizes | None:
    """numpy's rule with unknown sizes: a number above 1 wins, equal names stay."""
    if any(s is None for s in shapes):
        return None
    known = [s for s in shapes if s is not None]
    rank = max((len(s) for s in known), default=0)
    out: list[Size] = []
    for i in range(rank):
        column = [s[i - rank] for s in known if i - rank >= -len(s)]
        others = [d for d in dict.fromkeys(column) if d != 1]
        fixed = [d for d in others if isinstance(d, int)]
        out.append(fixed[0] if fixed else 1 if not others else _common(others))
    return tuple(out)


def _common(names: list[Size]) -> Size:
    """The size that different names have in common: ``seq`` with ``min(seq, 64)`` is ``seq``, or does not fit."""
    if len(names) == 1 or len(names) > 2 or None in names:
        return names[0] if len(names) == 1 else None
    for whole, part in (names, names[::-1]):
        if isinstance(part, Function) and part.kind == "min" and whole in part.operands:
            return whole if all(isinstance(v, str) or v > 0 for v in part.operands if v != whole) else None
    return None


def product(values: Sequence[Size]) -> Size:
    """The product of sizes; those of names are written out."""
    return multiply(*values)


def index_type(node: Node, default: str = "DT_INT32") -> DType:
    """The element type of positions that an operator gives."""
    return from_data_type(str(node.attrs.get("outputDataType", default)))


def axes_of(h: ShapeInference, node: Node, key: str) -> list[int] | None:
    """Axes in the second operand, or else in an attribute."""
    given = node.inputs[1] if len(node.inputs) > 1 else None
    return ints(node, key) if given is None else h.known_ints(given)


def pass_numbers(h: ShapeInference, node: Node) -> None:
    """The numbers of the first operand are those of the result."""
    found = h.ints(node.inputs[0])
    if found is not None:
        h.numbers[node.outputs[0]] = found


def listed(h: ShapeInference, value: Value | None) -> list[Size] | None:
    """The numbers of a list; unknown ones where only their count is known."""
    found = h.ints(value)
    if found is None and value is not None and value.shape is not None and len(value.shape) == 1:
        count = value.shape[0]
        return [None] * count if isinstance(count, int) and count <= SMALL else None
    return found
