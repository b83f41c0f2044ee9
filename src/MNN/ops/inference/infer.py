"""Element types and shapes of a graph's values as far as they follow without running.

These are hints for front ends and passes: sizes may be names, and what does not follow stays unknown. What decides is
always the lowering with real sizes. Unlike general shape inference this never computes with the sizes a model claims.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Sequence

from MNN.discovery import import_modules
from MNN.errors import MNNError
from MNN.ir.dtype import DType
from MNN.ir.graph import Graph, Node, Value
from MNN.ir.symbolic import Function, Size, multiply
from MNN.ops.core.datatypes import from_data_type
from MNN.ops.core.sizes import COMPARISONS, combine

_log = logging.getLogger(__name__)
Sizes = tuple[Size, ...]
Hint = tuple[DType | None, "Sizes | None"]
Rule = Callable[["Hints", Node], "list[Hint]"]
SMALL = 64
"""Integer tensors up to this many elements are followed: shapes are computed from them."""
RULES: dict[str, Rule] = {}


def rule(*ops: str) -> Callable[[Rule], Rule]:
    """Enters the rule of one or more operators."""

    def add(fn: Rule) -> Rule:
        for op in ops:
            RULES[op] = fn
        return fn

    return add


@functools.cache
def _load_rules() -> None:
    """Imports the files of this room, which enter their rules."""
    for _ in import_modules(__package__):
        pass


class Hints:
    """Annotates nodes in order. ``numbers`` holds small integer tensors, with names where sizes have them."""

    def __init__(self) -> None:
        self.numbers: dict[Value, list[Size]] = {}

    def annotate(self, node: Node) -> None:
        """Sets dtype and shape of the node's outputs where they are unknown."""
        for value, (dtype, shape) in zip(node.outputs, self.infer(node), strict=False):
            value.dtype = value.dtype or dtype
            if value.shape is None and shape is not None:
                value.shape = tuple(f"{value.name}.{i}" if d is None else d for i, d in enumerate(shape))

    def infer(self, node: Node) -> list[Hint]:
        """What follows for the node's outputs from its inputs; nodes must be put in order."""
        from MNN.ops.core.trial import lowered

        _load_rules()
        found: list[Hint] = []
        try:
            found = RULES[node.op](self, node) if node.op in RULES else []
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            # a malformed node has no hint; lowering will say what is wrong with it
            _log.debug("no hint for %s: %s", node, error)
        if len(found) >= len(node.outputs) and all(d is not None and s is not None and None not in s for d, s in found):
            return found
        try:
            made = lowered(node, self.known_ints)
        except MNNError as error:
            _log.debug("no hint for %s: %s", node, error)
            return found
        return found if made is None else [(t.dtype, t.shape) for t in made]

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
    hints = Hints()
    for node in graph.nodes:
        for _, sub in node.subgraphs():
            annotate(sub)
        hints.annotate(node)


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


# -- elementwise and others that keep their input's shape -------------------------------------------------------------

_SAME = (
    "AbsVal BatchNorm Bnll BitwiseNot CumProd CumSum Dropout ELU Eltwise GroupNorm Hardmax Identity InstanceNorm "
    "LayerNorm LogSoftmax LpNormalization LRN MatrixBandPart Normalize PReLU ReLU ReLU6 Reverse ReverseSequence Scale "
    "ScatterElements Selu Sigmoid Softmax TanH TensorScatter Trilu UnaryOp ZerosLike"
)


@rule(*_SAME.split())
def same(h: Hints, node: Node) -> list[Hint]:
    x = operand(node, 0)
    if node.op == "Identity" and x in h.numbers:
        h.numbers[node.outputs[0]] = h.numbers[x]
    return [(x.dtype, sizes(x))]


@rule("Not", "IsNaN", "IsInf")
def predicate(h: Hints, node: Node) -> list[Hint]:
    return [(DType.BOOL, sizes(operand(node, 0)))]


@rule("BinaryOp", "Remainder")
def binary(h: Hints, node: Node) -> list[Hint]:
    x, y = operand(node, 0), operand(node, 1)
    kind = str(node.attrs.get("opType", "ADD")) if node.op == "BinaryOp" else "REMAINDER"
    dtype = DType.BOOL if kind in COMPARISONS else x.dtype if kind == "POW" else x.dtype or y.dtype
    _follow_arithmetic(h, node, kind)
    return [(dtype, broadcast([sizes(x), sizes(y)]))]


def _follow_arithmetic(h: Hints, node: Node, kind: str) -> None:
    a, b = h.ints(node.inputs[0]), h.ints(node.inputs[1])
    if a is None or b is None or (1 not in (len(a), len(b)) and len(a) != len(b)):
        return
    count = max(len(a), len(b)) if a and b else 0
    h.numbers[node.outputs[0]] = [combine(kind, a[i % len(a)], b[i % len(b)]) for i in range(count)]


@rule("Select")
def select(h: Hints, node: Node) -> list[Hint]:
    values = [operand(node, i) for i in range(3)]
    which, yes, no = (h.ints(v) for v in values)
    if which and yes and no and all(isinstance(c, int) for c in which):
        count = max(len(which), len(yes), len(no))
        if all(len(part) in (1, count) for part in (which, yes, no)):
            h.numbers[node.outputs[0]] = [
                (yes if which[i % len(which)] else no)[i % len(yes if which[i % len(which)] else no)]
                for i in range(count)
            ]
    return [(values[1].dtype or values[2].dtype, broadcast([sizes(v) for v in values]))]


@rule("Cast", "BitCast")
def cast(h: Hints, node: Node) -> list[Hint]:
    from MNN.ops.core.datatypes import from_data_type

    x, dtype = operand(node, 0), from_data_type(str(node.attrs["dstT"]))
    found = h.ints(x)
    if found is not None and dtype.is_int:
        h.numbers[node.outputs[0]] = found
    return [(dtype, sizes(x))]


@rule("CastLike")
def cast_like(h: Hints, node: Node) -> list[Hint]:
    return [(operand(node, 1).dtype, sizes(operand(node, 0)))]


def index_type(node: Node, default: str = "DT_INT32") -> DType:
    """The element type of positions that an operator gives."""
    return from_data_type(str(node.attrs.get("outputDataType", default)))
