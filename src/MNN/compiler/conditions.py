"""What is computed for nothing when a condition turns out the other way.

``select(c, f(x), g(x))`` of one condition takes all of one side and nothing of the other: primitives that only one
side needs may be left out in a run where ``c`` chooses the other (if-conversion, Allen, Kennedy et al. 1983, undone
where something is to be saved).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from MNN.compiler.usage import VIEWS
from MNN.ir import prims as p
from MNN.ir.dtype import DType
from MNN.ir.prims import Prim, Tensor
from MNN.ir.scalar import Body

Condition = tuple[Tensor, bool]
"""A tensor of one boolean, and what it has to be."""
_HARMLESS = (p.Map, p.Reduce, p.MatMul, *VIEWS)
"""What may be computed of numbers that mean nothing, since it shares a kernel with what is needed: no index is out of
range for it."""


def conditions(prims: Sequence[Prim], outputs: Iterable[Tensor]) -> dict[int, Condition]:
    """By the ``id`` of primitives: the condition under which somebody needs their results, of those that have one."""
    if not any(isinstance(prim, p.Map) and _chooses(prim) for prim in prims):
        return {}
    needed: dict[Tensor, Condition | None] = dict.fromkeys(outputs)
    found: dict[int, Condition] = {}
    for prim in reversed(prims):
        own = _common([needed[t] for t in prim.outputs if t in needed])
        if not isinstance(prim, _HARMLESS) or not all(t.dtype.is_float for t in prim.outputs):
            own = None
        each = [own] * len(prim.inputs)
        if own is not None:
            found[id(prim)] = own
        elif isinstance(prim, p.Map) and _chooses(prim):
            each = _of_operands(prim.body, prim.inputs)
        for tensor, condition in zip(prim.inputs, each, strict=True):
            needed[tensor] = _common([needed[tensor], condition]) if tensor in needed else condition
    return found


def _chooses(prim: p.Map) -> bool:
    return any(instr.op == "select" for instr in prim.body.code) and any(map(_is_one, prim.inputs))


def _is_one(tensor: Tensor) -> bool:
    return tensor.dtype is DType.BOOL and tensor.const is None and all(type(n) is int and n == 1 for n in tensor.shape)


def _of_operands(body: Body, inputs: Sequence[Tensor]) -> list[Condition | None]:
    """When each operand of an elementwise computation is needed, whose results always are."""
    needed: dict[int, Condition | None] = dict.fromkeys(body.outputs)
    operands: list[Condition | None] = [None] * len(inputs)
    for number in reversed(range(len(body.code))):
        instr = body.code[number]
        own = needed.get(number)
        if instr.op == "arg":
            assert isinstance(instr.value, int)
            operands[instr.value] = own
            continue
        each = [own] * len(instr.args)
        chosen = body.code[instr.args[0]] if instr.op == "select" else None
        if own is None and chosen is not None and chosen.op == "arg":
            assert isinstance(chosen.value, int)
            condition = inputs[chosen.value]
            if _is_one(condition):
                each = [None, (condition, True), (condition, False)]
        for arg, when in zip(instr.args, each, strict=True):
            needed[arg] = _common([needed[arg], when]) if arg in needed else when
    return operands


def _common(found: Sequence[Condition | None]) -> Condition | None:
    return found[0] if found and all(c == found[0] for c in found) else None
