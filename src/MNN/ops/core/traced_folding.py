"""Objects that follow from open sizes, computed while planning: shapes as tensors, and little arithmetic on them.

Such a tensor has the numbers of the sizes at hand, and beside them the sizes that they are. What only moves numbers
about, or adds and multiplies a few, is followed here; of what goes further nothing is folded, since other sizes give
other numbers.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from MNN.ir import prims as p
from MNN.ir.dtype import DType
from MNN.ir.prims import Prim, Tensor
from MNN.ir.scalar import Body
from MNN.ir.traced import room_of
from MNN.reference.primitives import evaluate

MOST = 16
"""Objects of a tensor that are followed."""
_MOVES = (p.Reshape, p.Permute, p.Slice, p.Expand, p.Concat, p.Gather)
_ARITHMETIC: dict[str, Callable[..., Any]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "floordiv": operator.floordiv,
    "div": operator.floordiv,
    "mod": operator.mod,
    "rem": operator.mod,
    "neg": operator.neg,
    "cast": lambda x: x,
}
"""On integers that are not negative."""
Objects = NDArray[np.object_]


def traced(prim: Prim, dtype: DType, shape: Sequence[int]) -> list[int] | None:
    """The numbers, in row-major order, of a primitive's only result where operands follow from sizes; None where they
    cannot be followed."""
    if not dtype.is_int or math.prod(map(room_of, shape)) > MOST or any(not t.dtype.is_int for t in prim.inputs):
        return None
    found = None
    if isinstance(prim, _MOVES):
        found = _moved(prim, shape)
    elif isinstance(prim, p.Map) and len(prim.body.outputs) == 1:
        found = _computed(prim.body, [_numbers(t) for t in prim.inputs], shape)
    return None if found is None or any(int(n) < 0 for n in found) else found


def _numbers(t: Tensor) -> Objects:
    if t.sizes is not None:
        return t.sizes
    assert t.const is not None
    return t.const.astype(object)


def _moved(prim: Prim, shape: Sequence[int]) -> list[int] | None:
    """What lies where, told by moving numbers that stand for places."""
    operands = prim.inputs[:1] if isinstance(prim, p.Gather) else prim.inputs
    if any(t.sizes is not None for t in prim.inputs[len(operands) :]):
        return None
    everything = np.concatenate([_numbers(t).reshape(-1) for t in operands])
    places, at = [], 0
    for t in operands:
        count = int(np.prod(t.shape))
        places.append(np.arange(at, at + count).reshape(t.shape))
        at += count
    indices = [t.const for t in prim.inputs[len(operands) :] if t.const is not None]
    (found,) = evaluate(prim, [*places, *indices], [(DType.I64, tuple(map(int, shape)))])
    return [everything[i] for i in np.asarray(found).reshape(-1)]


def _computed(body: Body, operands: Sequence[Objects], shape: Sequence[int]) -> list[int] | None:
    values: list[Any] = []
    for instr in body.code:
        if not instr.dtype.is_int:
            return None
        if instr.op == "arg":
            assert isinstance(instr.value, int)
            values.append(operands[instr.value])
        elif instr.op == "const":
            values.append(instr.number())
        elif instr.op in _ARITHMETIC:
            try:
                values.append(_ARITHMETIC[instr.op](*[values[a] for a in instr.args]))
            except ZeroDivisionError:
                return None
        else:
            return None
    found = np.empty(tuple(map(int, shape)), object)
    found[...] = values[body.outputs[0]]
    return list(found.reshape(-1))


__all__ = ["MOST", "traced"]
