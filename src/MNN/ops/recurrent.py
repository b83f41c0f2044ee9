"""Recurrent layers. The input's share of all gates of all steps is one matrix product; the steps are unrolled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from MNN.errors import ShapeError
from MNN.ir.dtype import DType
from MNN.ir.graph import Node
from MNN.ir.prims import Tensor
from MNN.ops.base import Operator, register
from MNN.ops.builder import Builder
from MNN.ops.operands import operand, optional, require_rank, wide
from MNN.ops.recurrent_cells import Activation, Cell, GruCell, LstmCell, RnnCell, activation

_GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}


@dataclass
class Layer:
    """A recurrent layer's operands, in ONNX's shapes with the step axis first: ``x[T, B, I]``, ``w[D, G*H, I]``,
    ``r[D, G*H, H]``, ``input_bias`` and ``state_bias`` ``[D, G*H]``, ``lengths[B]``, ``states`` ``[D, B, H]`` each,
    ``peepholes[D, 3*H]``. ``activations`` holds three per direction."""

    kind: str
    x: Tensor
    w: Tensor
    r: Tensor
    input_bias: Tensor | None = None
    state_bias: Tensor | None = None
    lengths: Tensor | None = None
    states: Sequence[Tensor | None] = ()
    peepholes: Tensor | None = None
    activations: Sequence[Activation] = ()
    reverse: Sequence[bool] = (False,)
    coupled: bool = False
    after_reset: bool = False

    def run(self, b: Builder) -> list[Tensor]:
        """``Y[T, D, B, H]`` and the last states ``[D, B, H]``, in f32 at least."""
        gates, directions = _GATES[self.kind], len(self.reverse)
        require_rank(b, self.x, 3)
        require_rank(b, self.w, 3, name="W")
        require_rank(b, self.r, 3, name="R")
        hidden = self.r.shape[2]
        expected = ((directions, gates * hidden, self.x.shape[2]), (directions, gates * hidden, hidden))
        if (self.w.shape, self.r.shape) != expected:
            found = f"W {list(self.w.shape)} and R {list(self.r.shape)}"
            raise ShapeError(f"{b.where}: {found} do not fit, expected {list(expected[0])} and {list(expected[1])}")
        parts = [self._direction(b, d, hidden) for d in range(directions)]
        return [b.concat([p[0] for p in parts], 1), *(b.concat(list(s), 0) for s in zip(*(p[1:] for p in parts)))]  # noqa: B905

    def _direction(self, b: Builder, d: int, hidden: int) -> list[Tensor]:
        steps, batch, width = self.x.shape
        b.expect(steps * 4 * _GATES[self.kind])
        dtype = wide(b, self.x).dtype
        w, r = (wide(b, b.permute(self._one(b, t, d), (1, 0))) for t in (self.w, self.r))
        rows = b.reshape(wide(b, self.x), (steps * batch, width))
        given = b.matmul(rows, w)
        bias, inner = self._biases(b, d, hidden)
        if bias is not None:
            given = b.op("add", given, b.cast(bias, dtype))
        given = b.reshape(given, (steps, batch, given.shape[1]))
        cell = self._cell(b, d, hidden, r, inner)
        state = [self._start(b, i, d, (batch, hidden), dtype) for i in range(2 if self.kind == "LSTM" else 1)]
        outputs: list[Tensor] = []
        order = range(steps - 1, -1, -1) if self.reverse[d] else range(steps)
        for t in order:
            now = b.reshape(b.slice(given, (t, 0, 0), (1, batch, given.shape[2])), (batch, given.shape[2]))
            after = cell.step(b, now, state)
            if self.lengths is None:
                state = after
                outputs.append(after[0])
                continue
            valid = b.map(lambda s, n, t=t: s("lt", s.const(t, s.dtype(n)), n), b.reshape(self.lengths, (batch, 1)))
            state = [b.op("select", valid, new, old) for new, old in zip(after, state, strict=True)]
            outputs.append(b.op("select", valid, after[0], b.like(0, after[0])))
        if self.reverse[d]:
            outputs.reverse()
        shape = (1, 1, batch, hidden)
        if outputs:
            y = b.concat([b.reshape(t, shape) for t in outputs], 0)
        else:
            y = b.const(np.zeros((0, 1, batch, hidden)), dtype)
        return [y, *(b.reshape(t, (1, batch, hidden)) for t in state)]

    def _one(self, b: Builder, x: Tensor, d: int) -> Tensor:
        """Direction ``d`` of a stacked operand."""
        return b.reshape(b.slice(x, (d,) + (0,) * (x.rank - 1), (1, *x.shape[1:])), x.shape[1:])

    def _start(self, b: Builder, i: int, d: int, shape: tuple[int, int], dtype: DType) -> Tensor:
        given = self.states[i] if i < len(self.states) else None
        if given is None:
            return b.expand(b.const(0, dtype), shape)
        if given.rank != 3 or given.shape[1:] != shape:
            raise ShapeError(
                f"{b.where}: initial state {list(given.shape)}, expected [directions, {shape[0]}, {shape[1]}]"
            )
        return b.cast(self._one(b, given, d), dtype)

    def _biases(self, b: Builder, d: int, hidden: int) -> tuple[Tensor | None, Tensor | None]:
        """The bias added to the input's share, and the one inside a GRU's reset gate ``[1, H]``."""
        size = _GATES[self.kind] * hidden
        for t in (self.input_bias, self.state_bias):
            if t is not None and t.shape != (len(self.reverse), size):
                raise ShapeError(f"{b.where}: bias {list(t.shape)}, expected [{len(self.reverse)}, {size}]")
        first = None if self.input_bias is None else self._one(b, self.input_bias, d)
        second = None if self.state_bias is None else self._one(b, self.state_bias, d)
        if second is None:
            return first, None
        inner = None
        if self.after_reset:
            inner = b.reshape(b.slice(second, (2 * hidden,), (hidden,)), (1, hidden))
            second = b.pad(b.slice(second, (0,), (2 * hidden,)), (0,), (hidden,))
        return (second if first is None else b.op("add", first, second)), inner

    def _cell(self, b: Builder, d: int, hidden: int, r: Tensor, inner: Tensor | None) -> RnnCell | LstmCell | GruCell:
        f, g, h = self.activations[3 * d : 3 * d + 3]
        base = Cell(hidden, r, f, g, h)
        if self.kind == "RNN":
            return RnnCell(**vars(base))
        if self.kind == "GRU":
            return GruCell(**vars(base), after=self.after_reset, bias=None if inner is None else b.cast(inner, r.dtype))
        peeps = None
        if self.peepholes is not None:
            one = b.reshape(self._one(b, self.peepholes, d), (1, 3 * hidden))
            i, o, f_ = (b.cast(b.slice(one, (0, k * hidden), (1, hidden)), r.dtype) for k in range(3))
            peeps = (i, o, f_)
        return LstmCell(**vars(base), peepholes=peeps, coupled=self.coupled)


_SIGMOID, _TANH = activation("sigmoid", None, None, 0), activation("tanh", None, None, 0)
_USUAL = {"RNN": ("Tanh",), "GRU": ("Sigmoid", "Tanh"), "LSTM": ("Sigmoid", "Tanh", "Tanh")}


@register("LSTM", "RNN")
class PlainRecurrent(Operator):
    """Inputs ``x[T, B, I]``, ``W[D, G*H, I]``, ``R[D, G*H, H]``, ``B[D, G*H]`` (both biases added), initial
    ``h[D, B, H]?`` and (LSTM) ``c?``; D is 1 (forward) or 2 (both ways). Outputs ``Y[T, D, B, H]``, the last ``h`` and
    (LSTM) ``c``."""

    attributes = {"outputCount": 0, "weightSize": 0, "clippingThreshold": 0.0}

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        x, w, r = operand(b, inputs, 0), operand(b, inputs, 1, "W"), operand(b, inputs, 2, "R")
        reverse = (False, True)[: max(w.shape[0], 1) if w.rank else 1]
        first = _SIGMOID if node.op == "LSTM" else _TANH
        layer = Layer(
            node.op, x, w, r, optional(inputs, 3), states=inputs[4:6], reverse=reverse,
            activations=(first, _TANH, _TANH) * len(reverse),
        )  # fmt: skip
        return [b.cast(t, x.dtype) for t in layer.run(b)]


@register("OnnxLSTM", "OnnxGRU", "OnnxRNN")
class OnnxRecurrent(Operator):
    """LSTM, GRU and RNN with everything that ONNX allows; operands in ONNX's order (X, W, R, B, sequence_lens,
    initial_h, initial_c, P)."""

    in_mnn = False
    attributes = {
        "direction": "forward", "activations": None, "activation_alpha": None, "activation_beta": None, "clip": 0.0,
        "hidden_size": 0, "layout": 0, "input_forget": 0, "linear_before_reset": 0,
    }  # fmt: skip

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        kind = node.op.removeprefix("Onnx")
        x, w, r = operand(b, inputs, 0), operand(b, inputs, 1, "W"), operand(b, inputs, 2, "R")
        direction, batch_first = self.str_attr(node, "direction"), self.int_attr(node, "layout") == 1
        reverse = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}[direction]
        states = [optional(inputs, 5), optional(inputs, 6)]
        if batch_first:
            require_rank(b, x, 3)
            states = [None if s is None else b.permute(s, (1, 0, 2)) for s in states]
        bias, size = optional(inputs, 3), _GATES[kind] * r.shape[-1]
        halves: list[Tensor | None] = [None, None]
        if bias is not None:
            if bias.shape != (len(reverse), 2 * size):
                raise ShapeError(f"{b.where}: B has shape {list(bias.shape)}, expected [{len(reverse)}, {2 * size}]")
            halves = [b.slice(bias, (0, k * size), (bias.shape[0], size)) for k in (0, 1)]
        layer = Layer(
            kind, b.permute(x, (1, 0, 2)) if batch_first else x, w, r, halves[0], halves[1], optional(inputs, 4),
            states, optional(inputs, 7), self._activations(node, kind, len(reverse)), reverse,
            bool(self.int_attr(node, "input_forget")), bool(self.int_attr(node, "linear_before_reset")),
        )  # fmt: skip
        y, *last = (b.cast(t, x.dtype) for t in layer.run(b))
        if batch_first:
            return [b.permute(y, (2, 0, 1, 3)), *(b.permute(t, (1, 0, 2)) for t in last)]
        return [y, *last]

    def _activations(self, node: Node, kind: str, directions: int) -> list[Activation]:
        """Three per direction (those a cell lacks are repeated); alphas and betas go to those that take them."""
        names = self.attr(node, "activations")
        usual = _USUAL[kind]
        listed = [str(n) for n in names] if isinstance(names, list | tuple) and names else list(usual * directions)
        if len(listed) != len(usual) * directions:
            raise ShapeError(f"node '{node.name}': {len(listed)} activations, expected {len(usual) * directions}")
        alphas, betas = (list(self._floats(node, k)) for k in ("activation_alpha", "activation_beta"))
        clip = self.float_attr(node, "clip")
        made = []
        for i, name in enumerate(listed):
            kind_ = name.lower()
            takes_alpha = kind_ in ("affine", "leakyrelu", "thresholdedrelu", "scaledtanh", "hardsigmoid", "elu")
            alpha = alphas.pop(0) if takes_alpha and alphas else None
            beta = betas.pop(0) if kind_ in ("affine", "scaledtanh", "hardsigmoid") and betas else None
            # the third one acts on the cell's state, which onnxruntime does not clip
            made.append(activation(name, alpha, beta, 0.0 if i % len(usual) == 2 else clip))
        per = [made[d * len(usual) : (d + 1) * len(usual)] for d in range(directions)]
        return [(*p, *p, *p)[i] if len(p) < 3 else p[i] for p in per for i in range(3)]

    def _floats(self, node: Node, key: str) -> Sequence[float]:
        value = self.attr(node, key)
        return [float(v) for v in value] if isinstance(value, list | tuple) else []
