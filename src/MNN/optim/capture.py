"""Expressions as graphs whose leaves are inputs: the same expression on other numbers is the same graph."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from MNN.expr import compute
from MNN.expr.node import Expr, in_order
from MNN.expr.var import Var
from MNN.ir.dtype import DType
from MNN.ir.graph import Graph, Node, Value
from MNN.ir.prims import Tensor
from MNN.ops.core.base import operators


class Key(tuple[object, ...]):
    """A tuple that is hashed once: that of an expression has thousands of parts, and is looked up in every step."""

    _found: int | None = None

    def __hash__(self) -> int:
        if self._found is None:
            self._found = super().__hash__()
        return self._found


@dataclass
class Captured:
    """An expression: ``key`` is equal only for expressions of which the graphs are, ``leaves`` are what is fed."""

    key: Key
    leaves: list[Expr]
    nodes: list[Expr]
    embedded: dict[int, list[np.ndarray]]
    """Numbers that decide sizes: all results, by the expressions that give them."""
    outputs: list[Var]

    def statistics(self) -> list[Expr]:
        """Leaves that are kept from step to step, such as running means; constants are not."""
        found: dict[int, Expr] = {}
        for expr in self.nodes:
            for number in operators()[expr.op].updates:
                ref = expr.inputs[number]
                if ref is not None and ref[0].op == "Trainable":
                    found[id(ref[0])] = ref[0]
        return list(found.values())

    def graph(self) -> tuple[Graph, dict[int, Value]]:
        """The graph, with inputs named ``leaf0`` and so on, and its values by expression and output."""
        values: dict[tuple[int, int], Value] = {}
        inputs = []
        for number, expr in enumerate(self.leaves):
            kind, shape = expr.leaf_type
            inputs.append(Value(f"leaf{number}", kind, shape))
            values[id(expr), 0] = inputs[-1]
        for key, arrays in self.embedded.items():
            for i, array in enumerate(arrays):
                values[key, i] = Value(f"constant{len(values)}", DType.of(array), array.shape, array)
        made = []
        for number, expr in enumerate(self.nodes):
            layer = f"{expr.layer}/" if expr.layer else ""
            name = f"{expr.name or layer + expr.op}_{number}"
            results = [Value(f"{name}:{i}", *kind) for i, kind in enumerate(expr.types())]
            values.update({(id(expr), i): v for i, v in enumerate(results)})
            operands = [None if r is None else values[id(r[0]), r[1]] for r in expr.inputs]
            made.append(Node(expr.op, name, operands, results, dict(expr.attrs)))
        outputs = [values[id(v._expr), v._index] for v in self.outputs]
        return Graph("step", inputs, outputs, made), {id(e): values[id(e), 0] for e in self.leaves}


def capture(outputs: Sequence[Var]) -> Captured:
    """What computes Vars. Raises :class:`MNN.errors.MNNError` where operands do not fit."""
    order = in_order(v._expr for v in outputs)
    embedded: dict[int, list[np.ndarray]] = {}
    for expr in order:
        if not expr.is_leaf:
            for ref, wanted in zip(expr.inputs, _deciding(expr), strict=True):
                if wanted and ref is not None:
                    embedded[id(ref[0])] = ref[0].results()
    order = in_order((v._expr for v in outputs), lambda expr: id(expr) in embedded)
    place = {id(e): i for i, e in enumerate(order)}
    key: list[object] = []
    leaves, nodes = [], []
    for expr in order:
        if id(expr) in embedded:
            key.append(("constant", *((a.dtype.str, a.shape, a.tobytes()) for a in embedded[id(expr)])))
        elif expr.is_leaf:
            leaves.append(expr)
            key.append(("leaf", expr.leaf_type))
        else:
            nodes.append(expr)
            refs = tuple([None if r is None else (place[id(r[0])], r[1]) for r in expr.inputs])
            key.append((expr.op, _text(expr.attrs), refs))
    key.append(tuple((place[id(v._expr)], v._index) for v in outputs))
    return Captured(Key(key), leaves, nodes, embedded, list(outputs))


def _text(attrs: dict[str, object]) -> str:
    return repr(sorted(attrs.items(), key=lambda item: item[0]))


def _deciding(expr: Expr) -> tuple[bool, ...]:
    """Which operands' numbers decide what sizes its results have, of those that are constant or follow from shapes."""
    types = tuple(None if r is None else r[0].types()[r[1]] for r in expr.inputs)
    fixed = tuple(r is not None and (not r[0].sources or r[0].follows_from_shapes) for r in expr.inputs)
    if not any(fixed):
        return (False,) * len(types)
    known = None if not _needs_some(expr.op, _text(expr.attrs), types, expr.outputs, _Attrs(expr.attrs)) else fixed
    if known is None:
        return (False,) * len(types)
    wanted = list(fixed)
    for i, constant in enumerate(fixed):
        if constant:
            wanted[i] = False
            if _infer(expr, types, wanted) is None:
                wanted[i] = True
    return tuple(wanted)


class _Attrs:
    """Attributes that are told apart by their text, which is another argument."""

    def __init__(self, attrs: dict[str, object]) -> None:
        self.attrs = attrs

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Attrs)

    def __hash__(self) -> int:
        return 0


Types = tuple["tuple[DType, tuple[int, ...]] | None", ...]


@functools.lru_cache(maxsize=1024)
def _needs_some(op: str, text: str, types: Types, outputs: int, attrs: _Attrs) -> bool:
    """Whether the sizes of an operator's results depend on numbers."""
    operands = [None if t is None else Tensor(*t) for t in types]
    return compute.infer(op, attrs.attrs, operands, outputs, "") is None


def _infer(expr: Expr, types: Types, known: Sequence[bool]) -> list[Tensor] | None:
    operands = []
    for ref, kind, given in zip(expr.inputs, types, known, strict=True):
        assert (ref is None) == (kind is None)
        const = ref[0].results()[ref[1]] if ref is not None and given else None
        operands.append(None if kind is None else Tensor(*kind, const=const))
    return compute.infer(expr.op, expr.attrs, operands, expr.outputs, expr.name)


__all__ = ["Captured", "Key", "capture"]
