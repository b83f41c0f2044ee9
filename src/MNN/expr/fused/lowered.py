"""Operators on numbers, by the reference implementation of their primitives, which are kept for operands alike."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from MNN.ir.dtype import DType
from MNN.ir.graph import Node
from MNN.ir.prims import Host, Prim, Tensor

if TYPE_CHECKING:
    from MNN.ops.core.base import Operator

_MOST = 512
"""Operators on operands alike whose primitives are kept."""
_SMALL = 16
"""Whole numbers up to which an operand may be one that decides sizes: axes, shapes, places. They count as what tells
operands apart."""
_LARGE = 1 << 12
"""Numbers of a constant, a table that was made while lowering, from which on primitives are not kept."""


class _Steps(NamedTuple):
    """Primitives with their operands: ``inputs`` are what numbers are given for, by number of the operand."""

    prims: list[Prim]
    inputs: list[tuple[int, Tensor]]
    results: list[Tensor]


_KEPT: OrderedDict[object, _Steps | None] = OrderedDict()


def run(operator: Operator, node: Node, arrays: Sequence[np.ndarray | None]) -> list[np.ndarray]:
    """The results of a node. Raises :class:`MNNError` for operands that do not fit."""
    key = _key(operator, node, arrays)
    if key is None:
        return _evaluated(_lowered(operator, node, arrays, range(len(arrays))), arrays)
    steps = _KEPT.get(key, _KEPT)
    if isinstance(steps, OrderedDict):
        steps = _KEPT[key] = _general(operator, node, arrays)
        while len(_KEPT) > _MOST:
            _KEPT.popitem(last=False)
    if steps is None:
        return _evaluated(_lowered(operator, node, arrays, range(len(arrays))), arrays)
    return _evaluated(steps, arrays)


def _decides(array: np.ndarray) -> bool:
    return array.size <= _SMALL and array.dtype.kind in "iub"


def _key(operator: Operator, node: Node, arrays: Sequence[np.ndarray | None]) -> object:
    """What lowering looks at; None where that cannot be told."""
    attrs = tuple([(n, tuple(v) if isinstance(v, list) else v) for n, v in node.attrs.items()])
    given = tuple(
        [None if a is None else (a.dtype, a.shape, a.tobytes() if _decides(a) else None) for a in arrays]
    )  # fmt: skip
    key = (operator, attrs, given, len(node.outputs), node.name)
    try:
        hash(key)
    except TypeError:
        return None
    return key


def _general(operator: Operator, node: Node, arrays: Sequence[np.ndarray | None]) -> _Steps | None:
    """Primitives for all operands with such sizes; None where they depend on more than that."""
    from MNN.ops.core.builder import NeedValue

    try:
        steps = _lowered(operator, node, arrays, [i for i, a in enumerate(arrays) if a is not None and _decides(a)])
    except NeedValue:
        return None
    tables = sum(t.const.size for prim in steps.prims for t in prim.inputs if t.const is not None)
    same = all(prim.pure for prim in steps.prims if isinstance(prim, Host)) and not operator.draws
    return steps if same and tables <= _LARGE else None


def _lowered(operator: Operator, node: Node, arrays: Sequence[np.ndarray | None], constant: Sequence[int]) -> _Steps:
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
    return _Steps(b.prims, inputs, results)


def _evaluated(steps: _Steps, arrays: Sequence[np.ndarray | None]) -> list[np.ndarray]:
    from MNN.reference.primitives import evaluate

    numbers: dict[Tensor, np.ndarray] = {}
    for number, tensor in steps.inputs:
        array = arrays[number]
        assert array is not None
        numbers[tensor] = array
    for prim in steps.prims:
        given = [t.const if t.const is not None else numbers[t] for t in prim.inputs]
        kinds = [(t.dtype, t.shape) for t in prim.outputs]
        numbers.update(zip(prim.outputs, evaluate(prim, given, kinds), strict=True))
    return [t.const if t.const is not None else numbers[t] for t in steps.results]
