"""Reductions: neutral elements, combining, and folding a vector's lanes into one number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from MNN.backends.cpu.lang.element import compute_type
from MNN.backends.cpu.lang.module import I32, Builder, Value
from MNN.backends.cpu.math.scalar_code import apply
from MNN.backends.cpu.targets.instructions import capability as can
from MNN.ir.dtype import DType
from MNN.ir.scalar import Instr

_COMBINE = {"sum": "add", "prod": "mul", "max": "max", "min": "min"}
OPS = (*_COMBINE, "argmax", "argmin", "argmax_last", "argmin_last")


def neutral(op: str, dtype: DType) -> float | int:
    """The number that changes nothing when combined."""
    if op in ("sum", "prod"):
        return 0 if op == "sum" else 1
    lowest = op.startswith(("max", "argmax"))
    if dtype.is_float:
        return float("-inf") if lowest else float("inf")
    if dtype is DType.BOOL:
        return 0 if lowest else 1
    bits = dtype.size * 8
    if dtype.is_unsigned:
        return 0 if lowest else (1 << bits) - 1
    return -(1 << (bits - 1)) if lowest else (1 << (bits - 1)) - 1


def combine(b: Builder, op: str, dtype: DType, x: Value, y: Value) -> Value:
    """One step of sum, prod, max or min; NaN propagates."""
    return apply(b, Instr(_COMBINE[op], (), dtype), (x, y), dtype)


@dataclass(frozen=True)
class Reducer:
    """One reduction of values of ``dtype``. Its state is one vector, or for arg operations a vector and indices."""

    op: str
    dtype: DType
    numbers: bool = False
    """Of a maximum: NaN may be passed over, which takes one instruction on x86 instead of three."""

    @property
    def is_arg(self) -> bool:
        return self.op.startswith("arg")

    def initial(self, b: Builder, lanes: int) -> list[Value]:
        start = b.const(compute_type(self.dtype, lanes), neutral(self.op, self.dtype))
        return [start, b.const(I32.vec(lanes), 0)] if self.is_arg else [start]

    def step(
        self, b: Builder, state: Sequence[Value], value: Value, index: Value | None, mask: Value | None
    ) -> list[Value]:
        """Takes in one vector; lanes outside ``mask`` are left out. ``index`` (i32 per lane) for arg operations."""
        if not self.is_arg:
            if mask is not None:
                value = b.select(mask, value, b.const(value.type, neutral(self.op, self.dtype)))
            return [self._combine(b, state[0], value)]
        assert index is not None
        better = self._better(b, value, state[0], self.op.endswith("_last"))
        if mask is not None:
            better = b.and_(better, mask)
        return [b.select(better, value, state[0]), b.select(better, index, state[1])]

    def _combine(self, b: Builder, state: Value, value: Value) -> Value:
        if self.numbers and self.op == "max" and b.can(can.GREATER):
            return b.select(b.fcmp("ogt", value, state), value, state)
        return combine(b, self.op, self.dtype, state, value)

    def _better(self, b: Builder, x: Value, y: Value, equal: bool) -> Value:
        """Whether x wins over y; NaN wins over every number, and over NaN when ``equal`` counts."""
        if self.dtype is DType.BOOL:
            x, y = b.convert("zext", x, I32.vec(x.type.lanes)), b.convert("zext", y, I32.vec(y.type.lanes))
        name = ("g" if self.op.startswith("argmax") else "l") + ("e" if equal else "t")
        if not self.dtype.is_float:
            return b.icmp(("s" if self.dtype.is_signed else "u") + name, x, y)
        wins = b.fcmp("u" + name, x, y)
        if equal:
            # an unordered comparison also holds for a NaN in y, which only another NaN may replace
            return b.and_(wins, b.or_(b.fcmp("ord", y, y), b.fcmp("uno", x, x)))
        return b.and_(wins, b.fcmp("ord", y, y))

    def merge(self, b: Builder, x: Sequence[Value], y: Sequence[Value]) -> list[Value]:
        """Two states into one."""
        if not self.is_arg:
            return [self._combine(b, x[0], y[0])]
        last = self.op.endswith("_last")
        better = self._better(b, y[0], x[0], False)
        worse = self._better(b, x[0], y[0], False)
        other = b.icmp("sgt" if last else "slt", y[1], x[1])
        take = b.or_(better, b.and_(b.not_(worse), other))
        return [b.select(take, y[0], x[0]), b.select(take, y[1], x[1])]

    def finish(self, b: Builder, states: Sequence[Sequence[Value]], result: DType) -> Value:
        """The scalar in the compute type of ``result`` from several states, pairwise."""
        parts = [list(s) for s in states]
        while len(parts) > 1:
            merged = [self.merge(b, parts[i], parts[i + 1]) for i in range(0, len(parts) - 1, 2)]
            parts = merged + ([parts[-1]] if len(parts) % 2 else [])
        state = parts[0]
        lanes = state[0].type.lanes
        while lanes > 1:
            lanes //= 2
            low = [b.shuffle(v, None, range(lanes)) for v in state]
            high = [b.shuffle(v, None, range(lanes, 2 * lanes)) for v in state]
            state = self.merge(b, low, high)
        if self.is_arg:
            return b.convert("zext", state[1], compute_type(result)) if result.size > 4 else state[1]
        return state[0]
