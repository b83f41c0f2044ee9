"""An LSTM of integers, as the kernel that defines TensorFlow Lite's has it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from MNN.errors import ShapeError
from MNN.ir.dtype import DType
from MNN.ir.graph import Node
from MNN.ir.prims import Recurrence, Tensor
from MNN.ir.scalar import ENTRIES, Body, BodyBuilder
from MNN.ops.core.base import Operator, register
from MNN.ops.core.builder import Builder
from MNN.ops.core.operands import operand, optional
from MNN.ops.inference import infer
from MNN.ops.quantized.fixed_point import divided, product

_LOW, _HIGH = -(1 << 15), (1 << 15) - 1
_MOST_SHIFT, _MOST_WHOLE = 31, 15
_SIGMOID, _TANH, _TANH_STATE = range(3)
_PLAIN, _COUPLED = 4, 3
"""Gates."""
Factor = tuple[int, int]
"""31 bits and a power of two."""


@dataclass(frozen=True)
class IntegerStep:
    """What a step computes besides its products. ``recurrent`` and ``holes``: what products with the output and with
    the cell state are multiplied by, a gate each (input, forget, cell, output, without the first where there are three;
    peepholes have no cell gate); ``whole``: bits before the point of the cell state; ``clip``: its limit, 0 for
    none; ``output``: the factor of what the output gate leaves, and ``zero`` the zero point of the result."""

    recurrent: tuple[Factor, ...]
    holes: tuple[Factor, ...]
    whole: int
    clip: int
    output: Factor
    zero: int

    def body(self) -> Body:
        """The scalar program of :class:`MNN.ir.prims.Recurrence`."""
        s, count = BodyBuilder(), len(self.recurrent)
        given, products = ([s.arg(DType.I32) for _ in range(count)] for _ in range(2))
        _, cell = s.arg(DType.I32), s.arg(DType.I32)
        holes = [s.arg(DType.I32) for _ in self.holes]
        totals = [
            _saturated(s, s("add", x, _saturated(s, product(s, p, s.const(bits, DType.I32), power))))
            for x, p, (bits, power) in zip(given, products, self.recurrent, strict=True)
        ]
        *enters, forget, new, leave = totals
        *enter_holes, forget_hole, leave_hole = zip(holes, self.holes, strict=True) if holes else (None, None)

        def seen(total: int, hole: tuple[int, Factor] | None, state: int) -> int:
            if hole is None:
                return total
            share = product(s, s("mul", state, hole[0]), s.const(hole[1][0], DType.I32), hole[1][1])
            return _saturated(s, s("add", total, share))

        keep = s.lookup(seen(forget, forget_hole, cell), _SIGMOID)
        if enters:
            enter = s.lookup(seen(enters[0], enter_holes[0] if enter_holes else None, cell), _SIGMOID)
        else:
            enter = s("sub", s.const(_HIGH, DType.I32), keep)
        kept = _nearest(s, s("mul", keep, cell), 15)
        added = _nearest(s, s("mul", enter, s.lookup(new, _TANH)), 15 + self.whole)
        state = _saturated(s, s("add", kept, added))
        if self.clip:
            state = _between(s, state, -self.clip, self.clip)
        gate = s.lookup(seen(leave, leave_hole, state), _SIGMOID)
        out = s("mul", gate, s.lookup(state, _TANH_STATE))
        out = product(s, out, s.const(self.output[0], DType.I32), self.output[1])
        out = s("add", out, s.const(self.zero, DType.I32))
        return s.build(_between(s, out, -128, 127), state)


def _between(s: BodyBuilder, x: int, low: int, high: int) -> int:
    return s("min", s("max", x, s.const(low, DType.I32)), s.const(high, DType.I32))


def _saturated(s: BodyBuilder, x: int) -> int:
    return _between(s, x, _LOW, _HIGH)


def _nearest(s: BodyBuilder, x: int, bits: int) -> int:
    return divided(s, x, s.const(bits, DType.I32), s.const(1 << (bits - 1), DType.I32))


@register("IntegerLSTM")
class IntegerLSTM(Operator):
    """Inputs: ``x[T, B, G*H]`` (i32), what the input adds to the gates, with 12 bits behind the point; the weights
    ``R[G*H, H]`` of the output (i8); the output and the cell state at the start, ``[B, H]`` (i8, i16); tables of the
    sigmoid and the tangent of gates and of the tangent of the cell state (i16[65536]); peepholes ``[n, H]`` (i16)?.
    Outputs: ``y[T, B, H]`` (i8) and the last states.

    G is 4 (input, forget, cell, output), or 3 where the input gate is what the forget gate leaves. Attributes: see
    :class:`IntegerStep`; factors are pairs of numbers, one after the other. (``LstmStepInteger8x8_16`` in LiteRT's
    ``kernels/lstm_eval.cc``.)
    """

    in_mnn = False
    attributes = {"recurrent": None, "holes": None, "whole": 0, "clip": 0, "output": None, "zero": 0}
    initial_states = (2, 3)

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        x, r, hidden, cell = (operand(b, inputs, i) for i in range(4))
        tables = [operand(b, inputs, i) for i in range(4, 7)]
        holes, step = optional(inputs, 7), self._step(b, node)
        units, gates = r.shape[-1], len(step.recurrent)
        batch = x.shape[1] if x.rank == 3 else 0
        found = x.shape[2:], r.shape, hidden.shape, cell.shape, () if holes is None else holes.shape
        wanted = (gates * units,), (gates * units, units), (batch, units), (batch, units)
        if found != (*wanted, (len(step.holes), units) if step.holes else ()) or x.rank != 3:
            raise ShapeError(f"{b.where}: operands {[list(v) for v in found]} are not those of {gates} gates")
        if r.dtype is not DType.I8 or any(t.shape != (ENTRIES,) or t.dtype is not DType.I16 for t in tables):
            raise ShapeError(f"{b.where}: weights must be i8 and tables i16[{ENTRIES}]")
        lines = [] if holes is None else [b.slice(holes, (i, 0), (1, units)) for i in range(holes.shape[0])]
        states = [b.reshape(b.cast(t, DType.I32), (1, batch, units)) for t in (hidden, cell)]
        given = b.reshape(b.cast(x, DType.I32), (x.shape[0], batch, 1, gates * units))
        prim = Recurrence(
            [given, b.reshape(r, (1, *r.shape)), *states, *(b.cast(t, DType.I32) for t in lines), *tables],
            body=step.body(), gates=gates, parameters=len(lines), quantized=True, zero=step.zero, tables=len(tables),
        )  # fmt: skip
        shape = (x.shape[0], 1, batch, units)
        y, *last = b.emit(prim, (DType.I32, shape), *[(DType.I32, t.shape) for t in states])
        kept = [b.reshape(b.cast(t, d), (batch, units)) for t, d in zip(last, (DType.I8, DType.I16), strict=True)]
        return [b.reshape(b.cast(y, DType.I8), (shape[0], batch, units)), *kept]

    def _step(self, b: Builder, node: Node) -> IntegerStep:
        """What the attributes say. Raises :class:`ShapeError` for what no cell has."""
        recurrent, holes, output = (_factors(self.ints_attr(node, k)) for k in ("recurrent", "holes", "output"))
        whole, clip, zero = (self.int_attr(node, k) for k in ("whole", "clip", "zero"))
        gates = len(recurrent)
        fits = gates in (_PLAIN, _COUPLED) and len(holes) in (0, gates - 1) and len(output) == 1
        bits = all(abs(f) < 1 << 31 and abs(power) <= _MOST_SHIFT for f, power in (*recurrent, *holes, *output))
        if not (fits and bits and 0 <= whole < _MOST_WHOLE and 0 <= clip <= _HIGH and -128 <= zero <= 127):
            raise ShapeError(f"{b.where}: its attributes are those of no LSTM of integers; is the model damaged?")
        return IntegerStep(recurrent, holes, whole, clip, output[0], zero)


def _factors(numbers: Sequence[int]) -> tuple[Factor, ...]:
    return tuple(zip(numbers[::2], numbers[1::2], strict=False))


@infer.rule(IntegerLSTM)
def _infer(h: infer.ShapeInference, node: Node) -> list[infer.InferredShape]:
    known = infer.sizes(infer.operand(node, 0))
    hidden, cell = (infer.operand(node, i) for i in (2, 3))
    steps = None if known is None or len(known) != 3 else known[0]
    state = infer.sizes(hidden)
    y: infer.Sizes | None = None if state is None or len(state) != 2 else (steps, *state)
    return [(DType.I8, y), (DType.I8, state), (DType.I16, infer.sizes(cell))]


__all__ = ["IntegerLSTM", "IntegerStep"]
