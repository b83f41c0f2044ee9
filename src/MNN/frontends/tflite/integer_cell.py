"""The LSTM cell of integers, to the bits of LiteRT's reference kernel: bytes in and out, a cell state of 16 bits.

Gates are sums of 16 bits with 12 behind the point: that of the input, that of the last output and the peephole's, each
rounded and saturated. Sigmoids and tangents have 15. (``LstmStepInteger8x8_16`` in ``kernels/lstm_eval.cc``.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from MNN.frontends.tflite.context import Context
from MNN.frontends.tflite.file import Quantization
from MNN.frontends.tflite.fixed_point import nearest, parts, plus, reciprocal_root, scaled_sums
from MNN.frontends.tflite.gate_tables import sigmoids, tangents
from MNN.frontends.tflite.node import TfliteNode, quantization_of
from MNN.ir.dtype import DType
from MNN.ir.graph import Value

_GATE = np.float32(2.0**-12)
_INPUT, _FORGET, _CELL, _OUTPUT = range(4)
_HOLES = {_INPUT: 9, _FORGET: 10, _OUTPUT: 11}
_STATES = (18, 19)
_WHOLE = range(7)
"""Bits before the point of a cell state that kernels take."""
_TYPES = {0: "INT8", **dict.fromkeys(range(1, 9), "INT8"), **dict.fromkeys(range(9, 12), "INT16"),
          **dict.fromkeys(range(12, 16), "INT32"), 16: "INT8", 17: "INT32", 18: "INT8", 19: "INT16",
          **dict.fromkeys(range(20, 24), "INT16")}  # fmt: skip


@dataclass(frozen=True)
class IntegerCell:
    """``gates``: those that the cell has, in the order of the sums; ``whole``: the bits before the point of its state.
    ``hidden``: how what the output gate leaves is quantised; a projection makes the output of it."""

    node: TfliteNode
    gates: list[int]
    whole: int
    hidden: Quantization

    @classmethod
    def of(cls, node: TfliteNode) -> IntegerCell | None:
        """None for what is of other types, normalises layers or computes its weights."""
        tensors = [*node.tensors_in, *[None] * (24 - len(node.tensors_in))]
        if any(t is not None and t.type != _TYPES[i] for i, t in enumerate(tensors)):
            return None
        if node.tensors_out[0].type != "INT8" or node.option("fused_activation_function", "TANH") != "TANH":
            return None
        weights = [i for i in (*range(1, 18), *range(20, 24)) if tensors[i] is not None]
        quantised = [
            node.quantization(i) for i in (0, *_STATES, *(i for i in weights if i not in range(12, 16) and i != 17))
        ]
        if any(q is None or q.scale.size != 1 or q.block for q in quantised):
            return None
        if any(node.input(i).data is None for i in weights):
            return None
        if any(q is not None and q.zero.any() for q in (*quantised[2:],)):
            return None
        gates = [g for g in range(4) if tensors[1 + g] is not None and tensors[5 + g] is not None]
        hidden = node.intermediates[4] if len(node.intermediates) > 4 else tensors[18]
        made = None if hidden is None else quantization_of(hidden)
        fraction, exponent = np.frexp(quantised[2].scale.item() if quantised[2] is not None else 0)
        whole = 15 + int(exponent) - 1
        if gates not in ([0, 1, 2, 3], [1, 2, 3]) or made is None or made.scale.size != 1 or fraction != 0.5:
            return None
        found = cls(node, gates, whole, made)
        several = found._normalizes()
        fits = several == 0 or (several == len(gates) and len(node.intermediates) == 5)
        return found if whole in _WHOLE and fits else None

    def _normalizes(self) -> int:
        """How many gates have their sums normalised."""
        return sum(self.node.optional(20 + g) is not None for g in self.gates)

    def _step_of(self, gate: int) -> np.float32:
        """A step of a gate's sums before they are normalised."""
        q = quantization_of(self.node.intermediates[gate]) if self._normalizes() else None
        step: np.float32 = _GATE if q is None else q.scale.reshape(-1)[0]
        return step

    def _scale(self, index: int) -> np.float32:
        q = self.node.quantization(index)
        assert q is not None
        scale: np.float32 = q.scale.reshape(-1)[0]
        return scale

    def _zero(self, index: int) -> int:
        q = self.node.quantization(index)
        assert q is not None
        return int(q.zero.item())

    def _sums(self, ctx: Context, x: Value, first: int, of: int, bias: bool) -> Value:
        """All gates' sums of the products with ``x``, which operand ``of`` describes, side by side."""
        weights = [self.node.input(first + g).array() for g in self.gates]
        both = np.ascontiguousarray(np.concatenate(weights).T)
        total = ctx.op("MatMulInteger", x, ctx.const(both), ctx.const(np.int8(self._zero(of))))
        if bias:
            lines = [self.node.optional(12 + g) for g in self.gates]
            sizes = [len(w) for w in weights]
            known = [np.zeros(n, np.int32) if v is None else v.array() for v, n in zip(lines, sizes, strict=True)]
            total = ctx.binary("ADD", total, ctx.const(np.concatenate(known)))
        steps = [np.full(len(w), self._scale(first + g) * self._scale(of) / self._step_of(g), np.float64)
                 for g, w in zip(self.gates, weights, strict=True)]  # fmt: skip
        return _saturated(ctx, scaled_sums(ctx, total, np.concatenate(steps)))

    def inputs(self, ctx: Context) -> Value:
        """What the input adds to the gates of every step."""
        return self._sums(ctx, self.node.input(0), 1, 0, not self._normalizes())

    def layer(self, ctx: Context, inputs: Value, states: Sequence[Value]) -> list[Value] | None:
        """All steps of :meth:`inputs` ``[T, B, G*H]`` at once: the outputs and the last states. None where gates are
        normalised or the output is projected."""
        if self._normalizes() or self.node.optional(16) is not None:
            return None
        holes = [(g, at) for g, at in _HOLES.items() if g in self.gates and self.node.optional(at) is not None]
        if len(holes) not in (0, len(self.gates) - 1):
            return None
        factors = [self._scale(5 + g) * self._scale(18) / self._step_of(g) for g in self.gates]
        seen = [self._scale(19) * self._scale(at) / self._step_of(g) for g, at in holes]
        recurrent, peeped, output = (
            [*chain(*(parts(float(f)) for f in found))] for found in (factors, seen, [self._output()])
        )
        weights = np.concatenate([self.node.input(5 + g).array() for g in self.gates])
        lines = [ctx.const(np.stack([self.node.input(at).array() for _, at in holes]))] if holes else []
        tables = [ctx.const(t) for t in (sigmoids(), tangents(3), tangents(self.whole))]
        return ctx.emit(
            "IntegerLSTM", [inputs, ctx.const(weights), *states, *tables, *lines], 3,
            recurrent=recurrent, holes=peeped, output=output, whole=self.whole, zero=int(self.hidden.zero.item()),
            clip=self._steps("cell_clip", self._scale(19), 32767),
        )  # fmt: skip

    def step(self, ctx: Context, xs: Sequence[Value], states: Sequence[Value]) -> list[Value]:
        """The output and the cell state after a step whose :meth:`inputs` are given."""
        hidden, cell = states
        total = _saturated(ctx, ctx.binary("ADD", xs[0], self._sums(ctx, hidden, 5, 18, False)))
        parts = ctx.emit("Slice", [total], len(self.gates), axis=-1, sourceType="TENSORFLOW")
        sums, before = dict(zip(self.gates, parts, strict=True)), ctx.cast(cell, DType.I32)
        forget = self._sigmoid(ctx, self._seen(ctx, sums[_FORGET], _FORGET, before))
        new = _function(ctx, self._normalized(ctx, sums[_CELL], _CELL), tangents(3))
        if _INPUT in sums:
            enter = self._sigmoid(ctx, self._seen(ctx, sums[_INPUT], _INPUT, before))
        else:
            enter = ctx.binary("SUB", ctx.const(np.int32(32767)), forget)
        kept = nearest(ctx, ctx.binary("MUL", forget, before), 15)
        added = nearest(ctx, ctx.binary("MUL", enter, new), 15 + self.whole)
        state = _saturated(ctx, ctx.binary("ADD", kept, added))
        state = self._clipped(ctx, state, "cell_clip", self._scale(19), 32767)
        leave = self._sigmoid(ctx, self._seen(ctx, sums[_OUTPUT], _OUTPUT, state))
        product = ctx.binary("MUL", leave, _function(ctx, state, tangents(self.whole)))
        out = self._byte(ctx, scaled_sums(ctx, product, float(self._output())), int(self.hidden.zero.item()))
        if self.node.optional(16) is not None:
            out = self._projected(ctx, out)
        return [out, ctx.cast(state, DType.I16)]

    def _output(self) -> np.float32:
        """What the product of the output gate and the state's tangent is multiplied by."""
        scale: np.float32 = np.float32(2.0**-15) / np.float32(self.hidden.scale.item()) * np.float32(2.0**-15)
        return scale

    def _projected(self, ctx: Context, out: Value) -> Value:
        weights, bias = self.node.input(16).array(), self.node.optional(17)
        zero = ctx.const(np.int8(self.hidden.zero.item()))
        total = ctx.op("MatMulInteger", out, ctx.const(np.ascontiguousarray(weights.T)), zero)
        total = total if bias is None else ctx.binary("ADD", total, bias)
        scale = self._scale(16) * np.float32(self.hidden.scale.item()) / self._scale(18)
        made = ctx.cast(self._byte(ctx, scaled_sums(ctx, total, float(scale)), self._zero(18)), DType.I32)
        return ctx.cast(self._clipped(ctx, made, "proj_clip", self._scale(18), 127), DType.I8)

    def _seen(self, ctx: Context, total: Value, gate: int, cell: Value) -> Value:
        """With the peephole's share, where there is one."""
        at = _HOLES[gate]
        hole = self.node.optional(at)
        if hole is None:
            return self._normalized(ctx, total, gate)
        product = ctx.binary("MUL", cell, ctx.cast(hole, DType.I32))
        share = scaled_sums(ctx, product, float(self._scale(19) * self._scale(at) / self._step_of(gate)))
        return self._normalized(ctx, _saturated(ctx, ctx.binary("ADD", total, share)), gate)

    def _normalized(self, ctx: Context, x: Value, gate: int) -> Value:
        """Less its mean, over its deviation, with weights and the bias, where the cell has such: ten bits behind the
        point (``ApplyLayerNorm`` in ``reference/portable_tensor_utils.cc``)."""
        weights, bias = self.node.optional(20 + gate), self.node.optional(12 + gate)
        if weights is None:
            return x
        count = weights.array().size
        wide = ctx.cast(x, DType.I64)

        def of(number: int) -> Value:
            return ctx.const(np.int64(number))

        def sums(v: Value) -> Value:
            return ctx.op("Reduction", v, operation="SUM", dim=[-1], keepDims=True)

        mean = ctx.binary("REALDIV", ctx.binary("MUL", sums(wide), of(1 << 10)), of(count))
        squares = ctx.binary("MUL", sums(ctx.binary("MUL", wide, wide)), of((1 << 20) // count))
        spread = ctx.binary("REALDIV", ctx.binary("SUB", squares, ctx.binary("MUL", mean, mean)), of(1 << 20))
        scale = self._scale(20 + gate)
        least = ctx.const(np.int32(max(1, int(10000 * scale))))
        variance = ctx.cast(spread, DType.I32)
        variance = ctx.op("Select", ctx.binary("LESS", variance, ctx.const(np.int32(1))), least, variance)
        apart = ctx.cast(ctx.binary("SUB", ctx.binary("MUL", wide, of(1 << 10)), mean), DType.I32)
        whole = ctx.cast(ctx.op("FixedPointProduct", apart, *reciprocal_root(ctx, variance)), DType.I64)
        made = ctx.binary("MUL", whole, ctx.const(weights.array().astype(np.int64)))
        made = made if bias is None else ctx.binary("ADD", made, ctx.const(bias.array().astype(np.int64)))
        half = ctx.op("Select", ctx.binary("GREATER", made, of(0)), of(512), of(-512))
        made = ctx.cast(ctx.binary("REALDIV", ctx.binary("ADD", made, half), of(1 << 10)), DType.I32)
        return _saturated(ctx, scaled_sums(ctx, made, float(scale) * 2.0**12))

    def _sigmoid(self, ctx: Context, x: Value) -> Value:
        return _function(ctx, x, sigmoids())

    def _byte(self, ctx: Context, x: Value, zero: int) -> Value:
        made = plus(ctx, x, zero) if zero else x
        return ctx.cast(ctx.op("ReLU6", made, minValue=-128.0, maxValue=127.0), DType.I8)

    def _steps(self, option: str, scale: np.float32, most: int) -> int:
        """A limit in steps, of which there are at most so many; 0 for none."""
        limit = float(self.node.option(option, 0.0))
        return max(int(min(max(limit / float(scale), -most), most)), 0)

    def _clipped(self, ctx: Context, x: Value, option: str, scale: np.float32, most: int) -> Value:
        steps = self._steps(option, scale, most)
        return ctx.op("ReLU6", x, minValue=float(-steps), maxValue=float(steps)) if steps > 0 else x


def _saturated(ctx: Context, x: Value) -> Value:
    return ctx.op("ReLU6", x, minValue=-32768.0, maxValue=32767.0)


def _function(ctx: Context, x: Value, table: np.ndarray) -> Value:
    """The entries of a table of all 16-bit numbers, as int32."""
    found = ctx.op("GatherV2", ctx.const(table), plus(ctx, x, 32768), ctx.const(0))
    return ctx.cast(found, DType.I32)
