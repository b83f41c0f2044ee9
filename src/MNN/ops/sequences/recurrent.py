"""Recurrent layers. The input's share of all gates of all steps and directions is one matrix product; what each step
adds to it is one primitive for all steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from MNN.errors import ShapeError
from MNN.ir.dtype import DType
from MNN.ir.graph import Node
from MNN.ir.prims import Recurrence, Tensor
from MNN.ops.core.base import Operator, register
from MNN.ops.core.builder import Builder
from MNN.ops.core.operands import operand, optional, require_rank, wide
from MNN.ops.inference import infer
from MNN.ops.quantized.dynamic import dynamic_product
from MNN.ops.sequences.recurrent_cells import Activation, Cell, activation

_GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}


@dataclass
class Layer:
    """A recurrent layer's operands, in ONNX's shapes with the step axis first: ``x[T, B, I]``, ``w[D, G*H, I]``,
    ``r[D, G*H, H]``, ``input_bias`` and ``state_bias`` ``[D, G*H]``, ``lengths[B]``, ``states`` ``[D, B, H]`` each,
    ``peepholes[D, 3*H]``. ``activations`` holds three per direction. With ``scales`` of ``w`` and ``r`` (f32
    ``[D, G*H]``) the weights are i8, and what they are multiplied by is quantised: ``x`` at once, the state in every
    step."""

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
    scales: tuple[Tensor, Tensor] | None = None

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
        alike = self.activations[:3] == self.activations[3:]
        groups = [list(range(directions))] if alike or directions == 1 else [[d] for d in range(directions)]
        parts = [self._together(b, group) for group in groups]
        return [b.concat([p[0] for p in parts], 1), *(b.concat(list(s), 0) for s in zip(*(p[1:] for p in parts)))]  # noqa: B905

    def _together(self, b: Builder, group: Sequence[int]) -> list[Tensor]:
        """Directions with the same cell: ``Y[T, n, B, H]`` and the last states ``[n, B, H]``."""
        (steps, batch, width), count, hidden = self.x.shape, len(group), self.r.shape[2]
        gates = _GATES[self.kind]
        bias, parameters = self._biases(b, group)
        w = b.permute(b.reshape(self._some(b, self.w, group), (count * gates * hidden, width)), (1, 0))
        x = b.reshape(wide(b, self.x), (steps * batch, width))
        if self.scales is None:
            given = b.matmul(x, wide(b, w))
        else:
            given = dynamic_product(b, x, w, b.reshape(self._some(b, self.scales[0], group), (-1,)))
        if bias is not None:
            given = b.op("add", given, b.cast(b.reshape(bias, (-1,)), given.dtype))
        dtype = given.dtype
        given = b.reshape(given, (steps, batch, count, gates * hidden))
        states = [self._start(b, i, group, dtype) for i in range(2 if self.kind == "LSTM" else 1)]
        if self.peepholes is not None and self.kind == "LSTM":
            if self.peepholes.shape != (len(self.reverse), 3 * hidden):
                expected = [len(self.reverse), 3 * hidden]
                raise ShapeError(f"{b.where}: peepholes {list(self.peepholes.shape)}, expected {expected}")
            some = self._some(b, self.peepholes, group)
            parameters = [b.slice(some, (0, k * hidden), (count, hidden)) for k in range(3)]
        f, g, h = self.activations[3 * group[0] : 3 * group[0] + 3]
        step = Cell(self.kind, f, g, h, len(parameters), self.coupled, self.after_reset).step(dtype)
        r = self._some(b, self.r, group)
        r = wide(b, r) if self.scales is None else r
        operands = [given, r, *states, *(b.cast(t, dtype) for t in parameters)]
        if self.lengths is not None:
            if self.lengths.shape != (batch,):
                raise ShapeError(f"{b.where}: sequence lengths {list(self.lengths.shape)}, expected [{batch}]")
            operands.append(b.cast(self.lengths, DType.I64))
        if self.scales is not None:
            operands.append(self._some(b, self.scales[1], group))
        prim = Recurrence(
            operands, body=step.body, first=step.first, gates=gates, reverse=tuple(self.reverse[d] for d in group),
            parameters=len(parameters), limited=self.lengths is not None, quantized=self.scales is not None,
        )  # fmt: skip
        return b.emit(prim, (dtype, (steps, count, batch, hidden)), *((dtype, t.shape) for t in states))

    def _some(self, b: Builder, x: Tensor, group: Sequence[int]) -> Tensor:
        """Some neighbouring directions of a stacked operand."""
        return b.slice(x, (group[0],) + (0,) * (x.rank - 1), (len(group), *x.shape[1:]))

    def _start(self, b: Builder, i: int, group: Sequence[int], dtype: DType) -> Tensor:
        given = self.states[i] if i < len(self.states) else None
        shape = (len(group), self.x.shape[1], self.r.shape[2])
        if given is None:
            return b.expand(b.const(0, dtype), shape)
        expected = (len(self.reverse), *shape[1:])
        if given.shape != expected:
            raise ShapeError(f"{b.where}: initial state {list(given.shape)}, expected {list(expected)}")
        return b.cast(self._some(b, given, group), dtype)

    def _biases(self, b: Builder, group: Sequence[int]) -> tuple[Tensor | None, list[Tensor]]:
        """The bias added to the input's share ``[n, G*H]``, and the one inside a GRU's reset gate ``[n, H]``."""
        size, hidden = _GATES[self.kind] * self.r.shape[2], self.r.shape[2]
        for t in (self.input_bias, self.state_bias):
            if t is not None and t.shape != (len(self.reverse), size):
                raise ShapeError(f"{b.where}: bias {list(t.shape)}, expected [{len(self.reverse)}, {size}]")
        first, second = (None if t is None else self._some(b, t, group) for t in (self.input_bias, self.state_bias))
        if second is None:
            return first, []
        inner = []
        if self.after_reset:
            inner = [b.slice(second, (0, 2 * hidden), (len(group), hidden))]
            second = b.pad(b.slice(second, (0, 0), (len(group), 2 * hidden)), (0, 0), (0, hidden))
        return (second if first is None else b.op("add", first, second)), inner


_SIGMOID, _TANH = activation("sigmoid", None, None, 0), activation("tanh", None, None, 0)
_USUAL = {"RNN": ("Tanh",), "GRU": ("Sigmoid", "Tanh"), "LSTM": ("Sigmoid", "Tanh", "Tanh")}


@register("LSTM", "RNN")
class PlainRecurrent(Operator):
    """Inputs ``x[T, B, I]``, ``W[D, G*H, I]``, ``R[D, G*H, H]``, ``B[D, G*H]`` (both biases added), initial
    ``h[D, B, H]?`` and (LSTM) ``c?``; D is 1 (forward) or 2 (both ways). Outputs ``Y[T, D, B, H]``, the last ``h`` and
    (LSTM) ``c``."""

    attributes = {"outputCount": 0, "weightSize": 0, "clippingThreshold": 0.0}
    initial_states = (4, 5)

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
    initial_states = (5, 6)

    def lower(self, b: Builder, node: Node, inputs: Sequence[Tensor | None]) -> Sequence[Tensor]:
        w, r = operand(b, inputs, 1, "W"), operand(b, inputs, 2, "R")
        return self.layer(b, node, node.op.removeprefix("Onnx"), inputs, w, r)

    def layer(
        self, b: Builder, node: Node, kind: str, inputs: Sequence[Tensor | None], w: Tensor, r: Tensor,
        scales: tuple[Tensor, Tensor] | None = None,
    ) -> Sequence[Tensor]:  # fmt: skip
        """The layer of a node with weights ``w`` and ``r`` in ONNX's order; see :class:`Layer` for ``scales``."""
        x = operand(b, inputs, 0)
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
            bool(self.int_attr(node, "input_forget")), bool(self.int_attr(node, "linear_before_reset")), scales,
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


@infer.rule(PlainRecurrent, OnnxRecurrent)
def infer_recurrent(h: infer.ShapeInference, node: Node) -> list[infer.InferredShape]:
    x = infer.operand(node, 0)
    known, r = infer.sizes(x), infer.sizes(infer.operand(node, 2))
    if known is None or len(known) != 3 or r is None or len(r) != 3:
        return [(x.dtype, (None,) * 4), (x.dtype, (None,) * 3), (x.dtype, (None,) * 3)]
    directions, hidden = r[0], r[2]
    if infer.number(node, "layout") == 1:
        batch, steps = known[:2]
        last: infer.Sizes = (batch, directions, hidden)
        return [(x.dtype, (batch, steps, directions, hidden)), (x.dtype, last), (x.dtype, last)]
    steps, batch = known[:2]
    last = (directions, batch, hidden)
    return [(x.dtype, (steps, directions, batch, hidden)), (x.dtype, last), (x.dtype, last)]
