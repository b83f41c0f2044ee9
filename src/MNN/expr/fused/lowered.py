"""Operators on numbers, by the reference implementation of their primitives, which are kept for operands alike."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from MNN.expr.fused.deferred import Deferred, Operand
from MNN.expr.fused.steps import Steps
from MNN.ir.dtype import DType
from MNN.ir.graph import Node, Value
from MNN.ir.prims import Host, Tensor

if TYPE_CHECKING:
    from MNN.ops.core.base import Operator

Arrays = Sequence["np.ndarray | None"]
Operands = Sequence["Operand | None"]

_MOST = 512
"""Operators on operands alike whose primitives are kept."""
_SMALL = 16
"""Whole numbers up to which an operand may be one that decides sizes: axes, shapes, places. They count as what tells
operands apart."""
_LARGE = 1 << 12
"""Numbers of a constant, a table that was made while lowering, from which on primitives are not kept."""


_KEPT: OrderedDict[object, Steps | None] = OrderedDict()


def make_node(op: str, attrs: dict[str, object], operands: Sequence[object], outputs: int, name: str = "") -> Node:
    """A graph node on fresh values; absent operands are None."""
    inputs = [None if v is None else Value(f"in{i}") for i, v in enumerate(operands)]
    return Node(op, name, list(inputs), [Value(f"out{i}") for i in range(outputs)], attrs)


def run(op: str, attrs: dict[str, object], operands: Operands, outputs: int, name: str) -> list[np.ndarray]:
    """The results of an operator, of which operands may be what is not computed yet. Raises :class:`MNNError` for
    operands that do not fit."""
    operands = [o.numbers() if isinstance(o, Deferred) and math.prod(o.shape) <= _SMALL else o for o in operands]
    key = _key(op, attrs, operands, outputs, name)
    try:
        steps = _KEPT.get(key)
        known = steps is not None or key in _KEPT
    except TypeError:  # an attribute that is a list of lists, or a graph
        steps, known = None, True
    if steps is not None:
        return steps.run(operands)
    arrays = [o.numbers() if isinstance(o, Deferred) else o for o in operands]
    from MNN.ops.core.base import EagerOperator, operator  # not needed where Vars are only given to a model

    node = make_node(op, attrs, arrays, outputs, name)
    found = operator(node)
    if isinstance(found, EagerOperator):
        return [np.asarray(a) for a in found.evaluate(node, arrays)]
    if not known:
        steps = _KEPT[key] = _general(found, node, arrays)
        while len(_KEPT) > _MOST:
            _KEPT.popitem(last=False)
    if steps is None:
        steps = _lowered(found, node, arrays, range(len(arrays)))
    return steps.run(arrays)


def _decides(array: np.ndarray) -> bool:
    return array.size <= _SMALL and array.dtype.kind in "iub"


def _key(op: str, attrs: dict[str, object], operands: Operands, outputs: int, name: str) -> tuple[object, ...]:
    """What lowering looks at."""
    given: list[object] = [op, outputs, name]
    for operand in operands:
        if operand is None:
            given.append(None)
        elif isinstance(operand, Deferred):
            given += (operand.function.kind.numpy.num, operand.shape)
        else:
            given += (operand.dtype.num, operand.shape)
            if _decides(operand):
                given.append(operand.tobytes())
    for attribute, value in attrs.items():
        given += (attribute, tuple(value) if type(value) is list else value)
    return tuple(given)


def _general(operator: Operator, node: Node, arrays: Arrays) -> Steps | None:
    """Primitives for all operands with such sizes; None where they depend on more than that."""
    from MNN.ops.core.builder import NeedValue

    try:
        steps = _lowered(operator, node, arrays, [i for i, a in enumerate(arrays) if a is not None and _decides(a)])
    except NeedValue:
        return None
    tables = sum(t.const.size for prim in steps.prims for t in prim.inputs if t.const is not None)
    same = all(prim.pure for prim in steps.prims if isinstance(prim, Host)) and not operator.draws
    return steps if same and tables <= _LARGE else None


def _lowered(operator: Operator, node: Node, arrays: Arrays, constant: Sequence[int]) -> Steps:
    """The primitives of a node some of whose operands are constants of it."""
    from MNN.ops.core.builder import Builder

    b = Builder()
    b.where = f"{node.op} '{node.name}'" if node.name else node.op
    inputs: list[tuple[int, Tensor]] = []
    operands: list[Tensor | None] = []
    for number, array in enumerate(arrays):
        if array is None:
            operands.append(None)
        elif number in constant:
            operands.append(b.const(array))
        else:
            inputs.append((number, Tensor(DType.of(array), array.shape)))
            operands.append(inputs[-1][1])
    results = list(operator.lower(b, node, operands))
    return Steps(b.prims, inputs, results)
