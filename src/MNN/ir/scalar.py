"""Scalar programs: what one element of a fused loop computes.

A :class:`Body` is a straight-line list of instructions in SSA form. Instruction ``i`` may use only results of
instructions before ``i``. It is immutable and hashable, so that a body can be the key of a compiled kernel, and it is
interpreted with numpy (``MNN.reference.primitives``) as well as compiled (``MNN.backends``).

Semantics, where numpy and hardware disagree:

- integer ``div`` truncates towards zero and ``rem`` has the sign of the dividend (C); ``floordiv`` and ``mod`` follow
  Python. Division of an integer by zero gives 0, never a trap.
- ``cast`` float to integer truncates and saturates, NaN gives 0; to ``bool`` means ``!= 0``.
- ``round`` rounds halves to even. ``min``/``max`` propagate NaN. ``sign`` of NaN is NaN.
- shifts by the width or more give 0.
- ``f16`` and ``bf16`` values are computed in ``f32`` and rounded on ``cast`` and on store.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from MNN.ir.dtype import DType

UNARY = (
    "neg abs sign sqrt rsqrt recip exp exp2 log log1p expm1 sin cos tan asin acos atan sinh cosh tanh "
    "asinh acosh atanh erf floor ceil round trunc not isnan isinf"
).split()
"""Operations with one operand; ``not`` is logical on bool and bitwise on integers."""
BINARY = "add sub mul div floordiv mod rem pow atan2 min max and or xor shl shr".split()
"""Operations with two operands of one dtype; ``and or xor`` are logical on bool and bitwise on integers."""
COMPARE = "lt le gt ge eq ne".split()
"""Operations with two operands of one dtype and a bool result."""

ENTRIES = 1 << 16
"""Of a table of all numbers of 16 bits."""


@dataclass(frozen=True)
class Instr:
    """One instruction: ``op`` applied to results ``args`` gives a value of type ``dtype``.

    ``op`` is one of UNARY, BINARY, COMPARE, ``select`` (bool, a, b), ``fma`` (a*b+c), ``cast`` (to ``dtype``),
    ``arg`` (loads operand number ``value``) and ``const`` (``value`` is the bit-exact number: a float's 8-byte
    big-endian IEEE double, so that NaN compares equal to itself, or an int); in programs of primitives that have tables
    also ``lookup`` (of i32: what table number ``value``, i16[:data:`ENTRIES`], has for its lowest 16 bits, from -2^15).
    """

    op: str
    args: tuple[int, ...]
    dtype: DType
    value: bytes | int = 0

    def number(self) -> float | int:
        """The Python number of a ``const``."""
        return struct.unpack(">d", self.value)[0] if isinstance(self.value, bytes) else self.value


@dataclass(frozen=True)
class Body:
    """A scalar program: ``outputs`` index into ``code``; ``args`` are the operands' dtypes as loaded."""

    args: tuple[DType, ...]
    code: tuple[Instr, ...]
    outputs: tuple[int, ...]

    def __hash__(self) -> int:
        found: int | None = self.__dict__.get("_hash")  # bodies are long, and keys of many tables
        if found is None:
            found = hash((self.args, self.code, self.outputs))
            object.__setattr__(self, "_hash", found)
        return found

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in self.__dict__.items() if name != "_hash"}

    @property
    def result_dtypes(self) -> tuple[DType, ...]:
        return tuple(self.code[i].dtype for i in self.outputs)

    def key(self) -> str:
        """A short text that is equal exactly for equal bodies; used in kernel cache keys."""
        lines = [f"{i.op}:{i.dtype.value}({','.join(map(str, i.args))}){i.value!r}" for i in self.code]
        return f"{[a.value for a in self.args]}{';'.join(lines)}->{self.outputs}"


class BodyBuilder:
    """Builds a :class:`Body`; equal instructions are merged, so a common subexpression costs once.

    >>> from MNN.ir.dtype import DType
    >>> b = BodyBuilder()
    >>> x = b.arg(DType.F32)
    >>> y = b("mul", x, b.const(2.0, DType.F32))
    >>> len(b.build(y).code)
    3
    """

    def __init__(self) -> None:
        self._args: list[DType] = []
        self._code: list[Instr] = []
        self._index: dict[Instr, int] = {}

    def _add(self, instr: Instr) -> int:
        if instr not in self._index:
            self._index[instr] = len(self._code)
            self._code.append(instr)
        return self._index[instr]

    def arg(self, dtype: DType) -> int:
        """A new operand of this dtype."""
        self._args.append(dtype)
        return self._add(Instr("arg", (), dtype, len(self._args) - 1))

    def const(self, value: float | int | bool, dtype: DType) -> int:
        """A number of this dtype."""
        bits: bytes | int = struct.pack(">d", float(value)) if dtype.is_float else int(value)
        return self._add(Instr("const", (), dtype, bits))

    def dtype(self, index: int) -> DType:
        return self._code[index].dtype

    def cast(self, a: int, dtype: DType) -> int:
        """``a`` converted to ``dtype``; nothing when it already has it."""
        return a if self.dtype(a) is dtype else self._add(Instr("cast", (a,), dtype))

    def lookup(self, a: int, table: int) -> int:
        """What the primitive's table of this number has for ``a``, of i32."""
        return self._add(Instr("lookup", (a,), DType.I32, table))

    def __call__(self, op: str, *args: int) -> int:
        """Applies an operation; operands must already agree in dtype."""
        first = self._code[args[1 if op == "select" else 0]].dtype
        same = args[1:] if op == "select" else args
        if any(self._code[a].dtype is not first for a in same):
            raise TypeError(f"operands of '{op}' differ: {[self._code[a].dtype.value for a in args]}")
        boolean = op in COMPARE or op in ("isnan", "isinf")
        return self._add(Instr(op, tuple(args), DType.BOOL if boolean else first))

    def inline(self, body: Body, operands: Sequence[int]) -> list[int]:
        """Inserts another body whose operand ``k`` is our value ``operands[k]``; gives its outputs here."""
        here: list[int] = []
        for instr in body.code:
            if instr.op == "arg":
                assert isinstance(instr.value, int)
                here.append(self.cast(operands[instr.value], instr.dtype))
            else:
                here.append(self._add(Instr(instr.op, tuple(here[a] for a in instr.args), instr.dtype, instr.value)))
        return [here[o] for o in body.outputs]

    def build(self, *outputs: int) -> Body:
        return Body(tuple(self._args), tuple(self._code), tuple(outputs))


def body_of(dtypes: Sequence[DType], fn: Callable[..., int]) -> Body:
    """A body from a function ``fn(b, *args)`` that receives the builder and one value per dtype.

    >>> body_of([DType.F32, DType.F32], lambda b, x, y: b("max", x, y)).result_dtypes[0].value
    'f32'
    """
    b = BodyBuilder()
    return b.build(fn(b, *[b.arg(d) for d in dtypes]))
