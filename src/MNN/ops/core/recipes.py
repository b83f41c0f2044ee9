"""Nodes that are alike become the same primitives of other operands: lowered once, then repeated.

What the lowering of a node makes follows from its operator and attributes, the types and sizes of its operands, the
numbers of small constant ones, and of what a view looks at, where that is merged with it. Where all of that is equal,
the primitives differ in their operands only, and are made from what was written down for the first such node.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np

from MNN.ir import prims as p
from MNN.ir.dtype import DType
from MNN.ir.graph import Graph, Node
from MNN.ir.prims import Prim, Tensor
from MNN.ir.quant import QuantizedArray
from MNN.ops.core.base import operators
from MNN.ops.core.builder import Builder

READ = 64
"""Most numbers of a constant that what a node becomes may depend on."""
Types = tuple[tuple[DType, tuple[int, ...]], ...]
Tape = list[tuple[Prim, Types, list[Tensor]]]
"""Primitives as they were asked for, with what was given for them, which may be older ones or constants."""

_PLAIN = (int, float, bool, str, bytes, type(None))
_MERGED = (p.Reshape, p.Permute)
"""Views that builders merge with one of the same kind behind them."""


_OWN = ("inputs", "outputs", "origin")
"""What primitives of one step of a recipe do not have in common."""


class Sketches:
    """Which nodes of a graph may be alike, found once: a number for each, equal for those that are but for the operands
    that are computed."""

    def __init__(self, graph: Graph) -> None:
        numbers: dict[Hashable, int] = {}
        found: dict[Node, int] = {}
        for node in graph.nodes:
            sketch = _sketch(node)
            if sketch is not None:
                found[node] = numbers.setdefault(sketch, len(numbers))
        counts = Counter(found.values())
        self._of = {node: (number, place(node)) for node, number in found.items() if counts[number] > 1}
        self._written: set[Node] = set()
        self._followed: set[Node] = set()

    def get(self, node: Node) -> tuple[int, str] | None:
        """The node's number and what it is called, one text for all plans; None when there is no other like it."""
        return self._of.get(node)

    def worth_writing(self, node: Node) -> bool:
        """Whether others may follow a node's recipe: at the first size, and where some did so at another one."""
        if node in self._written:
            return node in self._followed
        self._written.add(node)
        return True

    def follow(self, node: Node) -> None:
        """Says that a node's recipe is followed."""
        self._followed.add(node)


def place(node: Node) -> str:
    """What messages and profiles call a node."""
    return f"{node.op} '{node.name}'"


def _sketch(node: Node) -> Hashable:
    found = operators().get(node.op)
    if found is None or not found.repeats:
        return None
    key: list[Any] = [node.op, len(node.outputs)]
    for name in sorted(node.attrs):
        value = node.attrs[name]
        items = value if isinstance(value, (list, tuple)) else (value,)
        if not all(isinstance(item, _PLAIN) for item in items):
            return None
        key += (name, type(value), *[(type(item), repr(item) if type(item) is float else item) for item in items])
    for given in node.inputs:
        if given is None or given.data is None:
            key.append(None)
        elif isinstance(given.data, QuantizedArray) or given.data.dtype.hasobject:
            return None
        else:
            key.append(_constant(given.data))
    return tuple(key)


def _constant(data: np.ndarray) -> Hashable:
    """What of a constant's numbers a lowering may look at: see :data:`READ`."""
    return data.dtype, data.shape, data.tobytes() if data.size <= READ else b""


def operands(inputs: Sequence[Tensor | None], known: Sequence[bool]) -> tuple[Hashable, list[Tensor]]:
    """What is to be known of a node's operands but for those in the ``known`` places (of which the sketch tells), and
    the tensors that its primitives may take."""
    key: list[Any] = []
    found: list[Tensor] = []
    numbers: dict[int, int] = {}
    for t, told in zip(inputs, known, strict=True):
        if t is None:
            key.append(None)
            continue
        number = numbers.get(id(t))
        if number is not None:
            key.append(number)
            continue
        numbers[id(t)] = len(found)
        found.append(t)
        if told:
            continue
        if t.const is not None:
            key += (_constant(t.const), t.dtype, t.sized)
            continue
        key += (t.dtype, t.shape)
        prim = t.producer
        if type(prim) in _MERGED:
            assert prim is not None
            source = prim.inputs[0]
            key += (type(prim), prim.attributes(), source.shape, source.const is None, type(source.producer))
            if id(source) not in numbers:
                numbers[id(source)] = len(found)
                found.append(source)
            key.append(numbers[id(source)])
    return tuple(key), found


class _Step(NamedTuple):
    kind: type[Prim]
    fields: dict[str, Any]
    """The primitive's attributes and sort by name."""
    attributes: tuple[object, ...]
    inputs: tuple[int, ...]
    """Numbers of tensors: the operands, the recipe's own constants, then what the steps give."""
    types: Types
    folded: bool


class Recipe:
    """The primitives of a node, for others like it."""

    def __init__(self, constants: Sequence[Tensor], steps: Sequence[_Step], outputs: Sequence[int]) -> None:
        self._constants, self._steps, self._outputs = tuple(constants), tuple(steps), tuple(outputs)

    @classmethod
    def of(cls, tape: Tape, given: Sequence[Tensor], outputs: Sequence[Tensor]) -> Recipe | None:
        """What is on the tape of a node that has these operands and outputs; None when it cannot be repeated."""
        made = {id(t) for _, _, results in tape for t in results}
        used = [t for prim, _, _ in tape for t in prim.inputs] + list(outputs)
        own = {id(t): t for t in given}
        constants = {id(t): t for t in used if id(t) not in made and id(t) not in own}
        if any(t.const is None for t in constants.values()) or any(type(prim) is p.Host for prim, _, _ in tape):
            return None
        numbers = {key: number for number, key in enumerate([*own, *constants])}
        if len(own) != len(given):
            return None
        count, steps = len(numbers), []
        for prim, types, results in tape:
            inputs = tuple([numbers[id(t)] for t in prim.inputs])
            folded, prim.sort, attributes = results[0].const is not None, object(), prim.attributes()
            fields = {n: value for n, value in prim.__dict__.items() if n not in _OWN}
            steps.append(_Step(type(prim), fields, attributes, inputs, types, folded))
            for t in results:
                numbers.setdefault(id(t), count)
                count += 1
        return cls(list(constants.values()), steps, [numbers[id(t)] for t in outputs])

    def follow(self, b: Builder, given: Sequence[Tensor]) -> list[Tensor]:
        """The outputs of a node with these operands."""
        at = [*given, *self._constants]
        merged, prims, where = b.merged, b.prims, b.where
        b.expect(len(self._steps))
        b.steps += len(self._steps)
        for kind, fields, attributes, numbers, types, folded in self._steps:
            inputs = [at[n] for n in numbers]
            if not folded:
                key = (kind, *map(id, inputs), attributes, types)
                known = merged.get(key)
                if known is not None:
                    at += known
                    continue
            prim = kind.__new__(kind)
            prim.__dict__.update(fields)
            prim.inputs, prim.origin, prim.outputs = inputs, where, []
            if folded:
                at += b.folds.fold(prim, types)
                continue
            prim.outputs = merged[key] = [Tensor(d, s, None, "", prim) for d, s in types]
            prims.append(prim)
            at += prim.outputs
        return [at[n] for n in self._outputs]
