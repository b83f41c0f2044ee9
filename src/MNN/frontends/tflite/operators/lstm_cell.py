"""The LSTM cell with everything that TensorFlow Lite allows: coupled gates, peepholes, layer normalisation, clipping
and a projection (Hochreiter and Schmidhuber 1997; Sak, Senior and Beaufays 2014, arXiv:1402.1128)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from MNN.frontends.tflite.context import Context
from MNN.frontends.tflite.file import Quantization, Tensor
from MNN.frontends.tflite.node import TfliteNode
from MNN.ir.graph import Value

_EPSILON = 1e-8
_GATES = 4  # input, forget, cell, output


@dataclass
class Cell:
    """Lists hold one entry a gate: input, forget, cell, output; None where the cell has none. ``rounding``: how the
    output and the cell state are quantised after every step, None where they are floats."""

    node: TfliteNode
    w: list[Value | None]
    r: list[Value | None]
    peepholes: list[Value | None]
    bias: list[Value | None]
    projection: Value | None
    projection_bias: Value | None
    normalized: list[Value | None]
    auxiliary: list[Value | None]
    rounding: list[tuple[Quantization, Tensor] | None] = field(default_factory=lambda: [None, None])

    @classmethod
    def of(
        cls, ctx: Context, node: TfliteNode, inputs: int, normalized: int | None = None, auxiliary: int | None = None
    ) -> Cell:
        """The cell whose first weights are operand ``inputs``; ``normalized`` and ``auxiliary``: the first of those."""

        def four(first: int | None) -> list[Value | None]:
            return [None] * _GATES if first is None else [ctx.maybe_real(node, first + i) for i in range(_GATES)]

        holes = [ctx.maybe_real(node, inputs + 8 + i) for i in range(3)]
        made = cls(
            node, four(inputs), four(inputs + 4), [holes[0], holes[1], None, holes[2]], four(inputs + 11),
            ctx.maybe_real(node, inputs + 15), ctx.maybe_real(node, inputs + 16), four(normalized), four(auxiliary),
        )  # fmt: skip
        if any(made.w[i] is None or made.r[i] is None for i in range(1, _GATES)):
            raise node.malformed("weights of a gate are missing")
        if normalized is not None:  # of one direction: states follow its weights
            for k, at in enumerate((18, 19)):
                tensor, q = node.tensors_in[at], node.quantization(at)
                if tensor is not None and q is not None:
                    made.rounding[k] = (q, tensor)
        return made

    @property
    def hidden(self) -> int:
        """Units of the cell."""
        shape = self.r[1].shape if self.r[1] is not None else None
        assert shape is not None
        return int(shape[0])

    @property
    def plain(self) -> bool:
        """Whether it is the common kind, for which there is one operator."""
        more = [*self.normalized, *self.auxiliary, self.projection, self.projection_bias]
        clipped = self.node.option("cell_clip", 0.0) or self.node.option("proj_clip", 0.0)
        whole = self.w[0] is not None and self.r[0] is not None and not any(v is not None for v in more)
        holes = [self.peepholes[i] is None for i in (0, 1, 3)]
        usual = self.node.option("fused_activation_function", "TANH") == "TANH"
        return bool(
            whole and usual and not clipped and (all(holes) or not any(holes)) and self.rounding == [None, None]
        )

    def stacked(self, ctx: Context) -> list[Value | None]:
        """Operands of OnnxLSTM behind the input: W, R and B, whose gates are input, output, forget, cell."""
        order = (0, 3, 1, 2)
        zero: Value | None = ctx.const(np.zeros(self.hidden, np.float32))
        lists: list[list[Value | None]] = [
            [self.w[i] for i in order], [self.r[i] for i in order],
            [*(self.bias[i] or zero for i in order), *[zero] * _GATES],
        ]  # fmt: skip
        return [ctx.op("Unsqueeze", ctx.op("Concat", *parts, axis=0), squeezeDims=[0]) for parts in lists]

    def holes(self, ctx: Context) -> Value | None:
        """The peepholes as OnnxLSTM has them: input, output, forget."""
        found = [self.peepholes[i] for i in (0, 3, 1)]
        if None in found:
            return None
        return ctx.op("Unsqueeze", ctx.op("Concat", *found, axis=0), squeezeDims=[0])

    def step(self, ctx: Context, xs: Sequence[Value], states: Sequence[Value]) -> list[Value]:
        """The output and the cell state after a step."""
        hidden, cell = states
        forget = ctx.op("Sigmoid", self._gate(ctx, 1, xs, hidden, cell))
        if self.w[0] is None:
            enter = ctx.binary("SUB", ctx.const(np.float32(1)), forget)
        else:
            enter = ctx.op("Sigmoid", self._gate(ctx, 0, xs, hidden, cell))
        new = self._activated(ctx, self._gate(ctx, 2, xs, hidden, None))
        state = ctx.binary("ADD", ctx.binary("MUL", forget, cell), ctx.binary("MUL", enter, new))
        state = self._rounded(ctx, 1, self._clipped(ctx, state, "cell_clip"))
        leave = ctx.op("Sigmoid", self._gate(ctx, 3, xs, hidden, state))
        out = ctx.binary("MUL", leave, self._activated(ctx, state))
        if self.projection is not None:
            out = ctx.op("MatMul", out, self.projection, self.projection_bias, transposeB=True)
            out = self._clipped(ctx, out, "proj_clip")
        return [self._rounded(ctx, 0, out), state]

    def _gate(self, ctx: Context, gate: int, xs: Sequence[Value], hidden: Value, cell: Value | None) -> Value:
        bias, scale, hole = self.bias[gate], self.normalized[gate], self.peepholes[gate]
        total = ctx.op("MatMul", xs[0], self.w[gate], None if scale is not None else bias, transposeB=True)
        total = ctx.binary("ADD", total, ctx.op("MatMul", hidden, self.r[gate], transposeB=True))
        other = self.auxiliary[gate]
        if other is not None:
            total = ctx.binary("ADD", total, ctx.op("MatMul", xs[1], other, transposeB=True))
        if hole is not None and cell is not None:
            total = ctx.binary("ADD", total, ctx.binary("MUL", cell, hole))
        if scale is None:
            return total
        return ctx.op("LayerNorm", total, scale, bias, axis=[-1], epsilon=_EPSILON)

    def _activated(self, ctx: Context, x: Value) -> Value:
        name = self.node.option("fused_activation_function", "TANH")
        return ctx.op("TanH", x) if name == "TANH" else ctx.activated(self.node, x)

    def _clipped(self, ctx: Context, x: Value, option: str) -> Value:
        limit = float(self.node.option(option, 0.0))
        return ctx.op("ReLU6", x, minValue=-limit, maxValue=limit) if limit > 0 else x

    def _rounded(self, ctx: Context, state: int, x: Value) -> Value:
        how = self.rounding[state]
        return x if how is None else ctx.dequantized(ctx.stored(x, how[0], how[1].dtype), how[0])
