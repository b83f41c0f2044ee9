"""What happens to a finished sum or window: the fused body with its operands, and the store."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from MNN.backends.cpu.lang import element
from MNN.backends.cpu.lang.element import Tail
from MNN.backends.cpu.lang.module import Builder, Value
from MNN.backends.cpu.math.scalar_code import BodyCode, Constant, apply, body_cost, cast, emit_body, number
from MNN.backends.cpu.targets.base import Target
from MNN.backends.cpu.targets.instructions import capability as can
from MNN.ir.dtype import DType
from MNN.ir.scalar import Body, Instr

OPERAND_KINDS = ("n", "mn", "m", "1")
"""How a product's epilogue reads an operand: along columns, per element, along rows, or one number."""
ALONG_COLUMNS = ("n", "mn")
"""Kinds that vary along columns."""
SUM = "sum"
"""An operand that is a sum, too, of other columns: some kernels have both at hand."""
_SHORT = 8
"""Bodies of at most so many instructions are emitted once per register of a tile, longer ones once per tile."""


def load_as(b: Builder, dtype: DType, to: DType, pointer: Value, lanes: int, tail: Tail | None = None) -> Value:
    """``lanes`` neighbouring elements of ``dtype``, converted to ``to``."""
    return cast(b, element.load(b, dtype, pointer, lanes, None, tail), dtype, to)


def masks_work(target: Target, dtypes: Sequence[DType]) -> bool:
    """Whether masked accesses of these types are instructions; where not, tails are done element by element."""
    return target.has_masks or (target.can(can.MASKED_WORDS) and all(d.size >= 4 for d in dtypes))


def identity(op: str, dtype: DType) -> float | int:
    """What ``op`` ("dot", "sum", "max") starts from."""
    if op != "max":
        return 0
    if dtype.is_float:
        return float("-inf")
    return -(1 << (dtype.size * 8 - 1)) if dtype.is_signed else 0


def combine(b: Builder, op: str, dtype: DType, total: Value, x: Value, weight: Value | None) -> Value:
    """``total`` with one more ``x`` (times ``weight``)."""
    if weight is not None:
        return b.fma(x, weight, total) if dtype.is_float else b.add(b.mul(x, weight), total)
    return apply(b, Instr("max" if op == "max" else "add", (0, 1), dtype), [total, x], dtype)


def check_epilogue(body: Body | None, operands: Sequence[str], sums: DType, out: DType) -> None:
    """Raises ``ValueError`` unless ``body`` takes a sum and the operands, and gives ``out``."""
    if body is None:
        if operands:
            raise ValueError("operands without an epilogue")
    elif len(body.args) != 1 + len(operands) or body.args[0] is not sums or body.result_dtypes != (out,):
        raise ValueError(f"the epilogue must take {sums.value} and {tuple(operands)}, and give {out.value}")


def operand_slots(operands: Sequence[str]) -> list[str]:
    """The slots of an epilogue's operands: each one's address, and a table of rows where it has rows."""
    given = [(i, kind) for i, kind in enumerate(operands) if kind != SUM]
    return [s for i, kind in given for s in (f"op{i}", *([f"rows{i}"] if kind in ("m", "mn") else []))]


def operand_bytes(
    kinds: Sequence[str], body: Body | None, starts: Sequence[np.ndarray], m: int, n: int
) -> dict[str, int]:
    """Bytes of memory that the operands of an ``m x n`` product's epilogue bring, by slot; ``starts`` are the different
    places where each begins."""
    if not kinds:
        return {}
    assert body is not None
    sizes = {"n": n, "mn": m * n, "m": m, "1": 1}
    dtypes = body.args[1:]
    given = [(i, kind) for i, kind in enumerate(kinds) if kind != SUM]
    return {f"op{i}": starts[i].size * sizes[kind] * dtypes[i].size for i, kind in given}


def added_first(body: Body | None, kinds: Sequence[str], sums: DType = DType.F32) -> int | None:
    """The number of the operand that the body adds to the sum before anything else, one number per column in the type
    of ``sums``, and uses nowhere else; None when there is none. Sums may begin with it instead of zero."""
    if body is None:
        return None
    first = [i for i, instr in enumerate(body.code) if instr.op == "arg" and instr.value == 0]
    users = [instr for instr in body.code if set(first) & set(instr.args)]
    if len(first) != 1 or len(users) != 1 or first[0] in body.outputs or users[0].op != "add":
        return None
    other = next((i for i in users[0].args if i != first[0]), None)
    if other is None or users[0].dtype is not sums:
        return None
    number, once = body.code[other].value, sum(instr.args.count(other) for instr in body.code) == 1
    if body.code[other].op != "arg" or not isinstance(number, int) or not once or other in body.outputs:
        return None
    return number - 1 if kinds[number - 1] == "n" and body.args[number] is sums else None


def is_short(body: Body | None) -> bool:
    """Whether a body is emitted once per register of a tile."""
    return body is None or body_cost(body) <= _SHORT


class Epilogue:
    """The body behind an accumulation in ``acc``, giving ``out``; None only converts. ``constant``: where its constants
    come from."""

    def __init__(self, b: Builder, acc: DType, out: DType, body: Body | None, constant: Constant = number) -> None:
        self._b, self._acc, self._out, self._body, self._constant = b, acc, out, body, constant
        self.short = is_short(body)

    def load(self, pointer: Value, dtype: DType, index: Value | None, lanes: int, tail: Tail | None) -> Value:
        """An operand's ``lanes`` elements from ``index`` on, or its one element in all lanes when index is None."""
        b = self._b
        if index is None:
            return b.splat(element.load(b, dtype, pointer, 1), lanes)
        return element.load(b, dtype, b.gep(pointer, element.storage_type(dtype), index), lanes, None, tail)

    def apply(self, value: Value, operands: Sequence[Value], lanes: int) -> Value:
        """The result for one vector, in the compute type of ``out``."""
        if self._body is None:
            if self._acc is DType.F32 and self._out in (DType.F16, DType.BF16, DType.BF16X2):
                return value  # the store rounds
            return cast(self._b, value, self._acc, self._out)
        return emit_body(self._b, self._body, [value, *operands], lanes, self._constant)[0]

    def before(self, number: int, value: Value, operands: Sequence[Value], lanes: int) -> Value:
        """What instruction ``number`` of the body gives for one vector."""
        assert self._body is not None
        code = BodyCode(self._body, (), constant=self._constant)
        code.row(self._b, {})
        return code.elements(self._b, dict(enumerate([value, *operands])), lanes, [number])[0]

    def store(self, value: Value, pointer: Value, tail: Tail | None) -> None:
        element.store(self._b, self._out, value, pointer, None, tail)
