"""Nodes that are alike become the same primitives of other operands: lowered once, then repeated.

What the lowering of a node makes follows from its operator and attributes, the types and sizes of its operands, the
numbers of small constant ones (all that of :mod:`MNN.ops.core.sketches`), and of what a view looks at, where that is
merged with it. Where all of that is equal, the primitives differ in their operands only, and are made from what was
written down for the first such node.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

from MNN.ir import prims as p
from MNN.ir.dtype import DType
from MNN.ir.prims import Prim, Tensor
from MNN.ops.core.builder import Builder
from MNN.ops.core.sketches import constant

Types = tuple[tuple[DType, tuple[int, ...]], ...]
Tape = list[tuple[Prim, Types, list[Tensor]]]
"""Primitives as they were asked for, with what was given for them, which may be older ones or constants."""

_MERGED = (p.Reshape, p.Permute)
"""Views that builders merge with one of the same kind behind them."""
_OWN = ("inputs", "outputs", "origin")
"""What primitives of one step of a recipe do not have in common."""


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
            key += (constant(t.const), t.dtype, t.sized)
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
