"""Types and values of the kernel language: thin, fast Python objects over LLVM IR text."""

from __future__ import annotations

import struct
from typing import Protocol, Union

import ml_dtypes
import numpy as np

from MNN.ir.dtype import DType


class Type:
    """An LLVM first-class type. Interned: two equal types are the same object.

    ``kind`` is ``"i"`` integer, ``"f"`` floating point, ``"p"`` pointer or ``"v"`` void; ``bits`` those of one element;
    ``lanes`` is 1 for scalars; ``suffix`` is the mangling used in the names of intrinsics (``v16f32``).
    """

    __slots__ = ("_vectors", "bits", "element", "kind", "lanes", "suffix", "text")

    def __init__(
        self, text: str, kind: str, bits: int, suffix: str, lanes: int = 1, element: Type | None = None
    ) -> None:
        self.text, self.kind, self.bits, self.suffix, self.lanes = text, kind, bits, suffix, lanes
        self.element: Type = element or self
        self._vectors: dict[int, Type] = {}

    def vec(self, lanes: int) -> Type:
        """The vector of ``lanes`` of this scalar type; the scalar itself when ``lanes`` is 1."""
        if lanes == 1:
            return self.element
        found = self.element._vectors.get(lanes)
        if found is None:
            e = self.element
            found = Type(f"<{lanes} x {e.text}>", e.kind, e.bits, f"v{lanes}{e.suffix}", lanes, e)
            e._vectors[lanes] = found
        return found

    @property
    def is_float(self) -> bool:
        return self.kind == "f"

    @property
    def size(self) -> int:
        """Bytes in memory of the whole value (elements are whole bytes; i1 counts as one)."""
        return max(self.bits // 8, 1) * self.lanes

    def __repr__(self) -> str:
        return self.text


VOID = Type("void", "v", 0, "")
PTR = Type("ptr", "p", 64, "p0")
I1 = Type("i1", "i", 1, "i1")
I8 = Type("i8", "i", 8, "i8")
I16 = Type("i16", "i", 16, "i16")
I32 = Type("i32", "i", 32, "i32")
I64 = Type("i64", "i", 64, "i64")
I128 = Type("i128", "i", 128, "i128")
F16 = Type("half", "f", 16, "f16")
BF16 = Type("bfloat", "f", 16, "bf16")
F32 = Type("float", "f", 32, "f32")
F64 = Type("double", "f", 64, "f64")

_OF_BITS = {1: I1, 8: I8, 16: I16, 32: I32, 64: I64, 128: I128}
_MEMORY = {
    DType.F32: F32, DType.F16: F16, DType.BF16: BF16, DType.F64: F64, DType.BOOL: I8,
    DType.I8: I8, DType.U8: I8, DType.I16: I16, DType.U16: I16, DType.I32: I32, DType.U32: I32,
    DType.I64: I64, DType.U64: I64,
}  # fmt: skip


def int_type(bits: int, lanes: int = 1) -> Type:
    """The integer type of ``bits`` bits."""
    return _OF_BITS[bits].vec(lanes)


def memory_type(dtype: DType, lanes: int = 1) -> Type:
    """The LLVM type of a tensor's elements in memory (booleans and narrow types are bytes)."""
    return _MEMORY.get(dtype, I8).vec(lanes)


class IndexArithmetic(Protocol):
    """What values ask the builder they belong to for: their operators."""

    def index_add(self, x: Operand, y: Operand) -> Value: ...

    def index_sub(self, x: Operand, y: Operand) -> Value: ...

    def index_mul(self, x: Operand, y: Operand) -> Value: ...

    def udiv(self, x: Operand, y: Operand) -> Value: ...

    def urem(self, x: Operand, y: Operand) -> Value: ...


class Value:
    """An SSA value or a constant. ``number`` is set for constants made from a Python number.

    Operators work on scalar ``i64`` (index arithmetic: no overflow; ``//`` and ``%`` are for values >= 0) and on
    floats. Use the builder's methods for data integers, which wrap.
    """

    __slots__ = ("b", "number", "text", "type")

    def __init__(self, b: IndexArithmetic, text: str, type_: Type, number: float | int | None = None) -> None:
        self.b, self.text, self.type, self.number = b, text, type_, number

    def __add__(self, other: Operand) -> Value:
        return self.b.index_add(self, other)

    def __radd__(self, other: Operand) -> Value:
        return self.b.index_add(self, other)

    def __sub__(self, other: Operand) -> Value:
        return self.b.index_sub(self, other)

    def __rsub__(self, other: Operand) -> Value:
        return self.b.index_sub(other, self)

    def __mul__(self, other: Operand) -> Value:
        return self.b.index_mul(self, other)

    def __rmul__(self, other: Operand) -> Value:
        return self.b.index_mul(self, other)

    def __floordiv__(self, other: Operand) -> Value:
        return self.b.udiv(self, other)

    def __mod__(self, other: Operand) -> Value:
        return self.b.urem(self, other)

    def __repr__(self) -> str:
        return f"{self.type.text} {self.text}"


Operand = Union[Value, int, float]  # noqa: UP007  evaluated at run time on Python 3.10


def scalar_literal(type_: Type, number: float | int) -> str:
    """The text of a number as a constant of a scalar type; floats are rounded to the type."""
    if type_.kind == "i":
        bits = type_.bits
        number = int(number)
        if bits == 1:
            return "true" if number & 1 else "false"
        number &= (1 << bits) - 1  # unsigned constants are written as their two's complement
        return str(number - (1 << bits) if number >> (bits - 1) else number)
    if type_.kind == "p":
        return "null"
    if type_ is F64:
        return f"0x{struct.pack('>d', number).hex().upper()}"
    if type_ is F32:
        with np.errstate(over="ignore"):
            return f"0x{struct.pack('>d', float(np.float32(number))).hex().upper()}"
    if type_ is F16:
        with np.errstate(over="ignore"):
            return f"0xH{int(np.float16(number).view(np.uint16)):04X}"
    if type_ is BF16:
        return f"0xR{int(np.asarray(number, ml_dtypes.bfloat16).view(np.uint16)):04X}"
    raise TypeError(f"no literal of type {type_}")


def literal(type_: Type, number: float | int) -> str:
    """The text of a number as a constant of ``type_``; vectors get it in every lane."""
    if type_.lanes == 1:
        return scalar_literal(type_, number)
    if number == 0 and (type_.kind == "i" or str(number)[0] != "-"):
        return "zeroinitializer"
    return f"splat ({type_.element.text} {scalar_literal(type_.element, number)})"
