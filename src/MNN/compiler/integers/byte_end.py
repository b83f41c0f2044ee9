"""How scalar programs end that give bytes: a value is bounded, rounded, moved by the zero point, and narrowed."""

from __future__ import annotations

from collections.abc import Sequence

from MNN.ir.dtype import DType
from MNN.ir.scalar import Instr

BYTES = (DType.I8, DType.U8)


def byte_end(code: Sequence[Instr], byte: int) -> tuple[int, int] | None:
    """Which f32 value instruction ``byte`` is made of in this way, and by how much that is moved; None where it is made
    otherwise."""
    if code[byte].op != "cast" or code[byte].dtype not in BYTES:
        return None
    whole, zero = code[byte].args[0], 0
    if code[whole].op == "add":
        whole, number = _with_number(code, whole)
        zero = int(number)
    if whole < 0 or code[whole].op != "cast" or code[whole].dtype is not DType.I32:
        return None
    rounded = code[code[whole].args[0]]
    if rounded.op != "round" or rounded.dtype is not DType.F32:
        return None
    value = rounded.args[0]
    while value >= 0 and code[value].op in ("min", "max"):
        value, _ = _with_number(code, value)
    return None if value < 0 else (value, zero)


def _with_number(code: Sequence[Instr], number: int) -> tuple[int, float]:
    """The operand that an instruction takes beside a constant (-1: there is none), and the constant."""
    constants = [a for a in code[number].args if code[a].op == "const"]
    others = [a for a in code[number].args if code[a].op != "const"]
    return (others[0], float(code[constants[0]].number())) if len(constants) == len(others) == 1 else (-1, 0.0)


__all__ = ["BYTES", "byte_end"]
