"""Recurrent layers that the official engine has no operator for: a loop over the steps, as its own converter writes.

The input's share of all gates of all steps is one matrix product before the loop. The loop carries the states, and
stacks what it puts out. Files are read back as the layer itself (see ``composite_ops``).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from MNN.frontends.mnn.official.compose import Steps
from MNN.frontends.mnn.official.rules.arithmetic import operand
from MNN.ir.dtype import DType
from MNN.ir.graph import Graph, Node, Value

_GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
_USUAL = {"RNN": ["tanh"], "GRU": ["sigmoid", "tanh"], "LSTM": ["sigmoid", "tanh", "tanh"]}
_KNOWN = {"sigmoid": "Sigmoid", "tanh": "TanH", "relu": "ReLU"}


@dataclass
class _Layer:
    kind: str
    hidden: int
    x: Value
    w: Value
    r: Value
    bias: Value | None
    lengths: Value | None
    states: list[Value | None]
    peepholes: Value | None
    activations: list[list[str]]
    reverse: list[bool]
    after: bool
    coupled: bool


def recurrent(node: Node) -> list[Node] | None:
    """OnnxLSTM, OnnxGRU or OnnxRNN as a loop for each direction."""
    layer = _layer(node)
    if layer is None:
        return None
    batch_first = bool(node.attrs.get("layout"))
    s = Steps(node)
    if batch_first:
        layer.x = s.permute(layer.x, 1, 0, 2)
        layer.states = [None if v is None else s.permute(v, 1, 0, 2) for v in layer.states]
    parts = [_direction(s, layer, d) for d in range(len(layer.reverse))]
    y, *last = (s.op("Concat", list(p), DType.F32, axis=a) if len(p) > 1 else p[0]
                for p, a in zip(zip(*parts, strict=True), (1, 0, 0), strict=False))  # fmt: skip
    if batch_first:
        y, last = s.permute(y, 2, 0, 1, 3), [s.permute(v, 1, 0, 2) for v in last]
    return s.finish([y, *last][: len(node.outputs)])


def _layer(node: Node) -> _Layer | None:
    kind, attrs = node.op.removeprefix("Onnx"), node.attrs
    x, w, r, bias, lengths, *rest = [*node.inputs, *[None] * 8][:8]
    hidden = attrs.get("hidden_size")
    if not isinstance(hidden, int) or hidden < 1:
        hidden = int(r.shape[2]) if r is not None and r.shape is not None and isinstance(r.shape[-1], int) else 0
    reverse = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}.get(
        str(attrs.get("direction") or "forward")
    )
    given = attrs.get("activations")
    names = [str(a).lower() for a in given] if isinstance(given, (list, tuple)) and given else None
    count = len(_USUAL[kind])
    if x is None or w is None or r is None or hidden < 1 or reverse is None or attrs.get("clip"):
        return None
    if names is None:
        names = _USUAL[kind] * len(reverse)
    if len(names) != count * len(reverse) or any(n not in _KNOWN for n in names):
        return None
    if any(v is not None and v.dtype is not DType.F32 for v in (x, w, r, bias, *rest)):
        return None
    activations = [names[d * count : (d + 1) * count] for d in range(len(reverse))]
    return _Layer(
        kind, hidden, x, w, r, bias, lengths, rest[: 2 if kind == "LSTM" else 1], rest[2], activations, reverse,
        bool(attrs.get("linear_before_reset")), bool(attrs.get("input_forget")),
    )  # fmt: skip


def _direction(s: Steps, layer: _Layer, d: int) -> list[Value]:
    """``Y[T, 1, B, H]`` and the last states ``[1, B, H]`` of one direction."""
    gates, hidden, directions = _GATES[layer.kind], layer.hidden, len(layer.reverse)

    def one(value: Value) -> Value:
        return s.pick(value, s.const(d, DType.I32)) if directions > 1 else s.squeeze(value, 0)

    given = s.matmul(layer.x, one(layer.w), transposed=True)
    inner = None
    if layer.bias is not None:
        first, second = s.pieces(one(layer.bias), 0, 2)
        if layer.kind == "GRU" and layer.after:
            inner = second  # inside of the reset gate the hidden part counts: all of it goes to the state's share
        given = s.binary("ADD", given, first if inner is not None else s.binary("ADD", first, second))
    peeps = [] if layer.peepholes is None else s.pieces(one(layer.peepholes), 0, 3)
    steps = s.size(layer.x, 0)
    states = []
    for value in layer.states:
        if value is not None:
            states.append(one(value))
            continue
        shape = s.op("Concat", [s.unsqueeze(s.size(layer.x, 1), 0), s.ints(hidden)], DType.I64, axis=0)
        states.append(s.op("Fill", [shape, s.const(0.0, DType.F32)], DType.F32))
    body = _Body(s, layer, d, given, one(layer.r), inner, peeps, steps).graph(gates)
    made = s.many("Loop", [steps, s.const(True, DType.BOOL), *states], DType.F32, len(states) + 1, body=body)
    y = made[-1]
    if layer.reverse[d]:
        down = s.const(-1, DType.I64)
        y = s.pick(y, s.op("Range", [s.binary("SUB", steps, 1), down, down], DType.I64))
    return [s.unsqueeze(y, 1), *(s.unsqueeze(v, 0) for v in made[:-1])]


class _Body:
    """The body of the loop: one step."""

    def __init__(
        self, outer: Steps, layer: _Layer, d: int, given: Value, r: Value, inner: Value | None, peeps: list[Value],
        steps: Value,
    ) -> None:  # fmt: skip
        self.s = Steps(outer.node, f"step{d}")
        self.layer, self.d, self.given, self.r, self.inner, self.peeps = layer, d, given, r, inner, peeps
        self.steps = steps

    def graph(self, gates: int) -> Graph:
        s, layer = self.s, self.layer
        turn, going = Value(s.name("turn"), DType.I64, ()), Value(s.name("going"), DType.BOOL, ())
        states = [Value(s.name("state"), DType.F32) for _ in layer.states]
        at = turn
        if layer.reverse[self.d]:
            at = s.binary("SUB", s.binary("SUB", self.steps, 1), turn)
        now = s.pick(self.given, at)
        step = {"RNN": self.rnn, "GRU": self.gru, "LSTM": self.lstm}[layer.kind]
        after = step(s.pieces(now, -1, gates), states)
        out = after[0]
        if layer.lengths is not None:
            lengths = s.cast(layer.lengths, DType.I64)
            inside = s.unsqueeze(s.binary("GREATER", lengths, at, DType.BOOL), 1)
            out = s.op("Select", [inside, after[0], s.op("ZerosLike", [after[0]], DType.F32)], DType.F32)
            after = [s.op("Select", [inside, new, old], DType.F32) for new, old in zip(after, states, strict=True)]
        outputs = [*after, out]
        # what is put out is made here, and once
        outputs = [s.op("Identity", [v], DType.F32) for v in outputs]
        again = s.op("Identity", [going], DType.BOOL)
        return Graph(s.stem, [turn, going, *states], [again, *outputs], s.nodes)

    def f(self, k: int, x: Value) -> Value:
        """Activation ``k`` of the cell."""
        return self.s.op(_KNOWN[self.layer.activations[self.d][k]], [x], DType.F32)

    def rnn(self, given: list[Value], states: list[Value]) -> list[Value]:
        back = self.s.matmul(states[0], self.r, transposed=True)
        return [self.f(0, self.s.binary("ADD", given[0], back))]

    def gru(self, given: list[Value], states: list[Value]) -> list[Value]:
        s, h = self.s, states[0]
        update, reset, fresh = given
        if self.layer.after:
            back = s.matmul(h, self.r, transposed=True)
            if self.inner is not None:
                back = s.binary("ADD", back, self.inner)
            z, r, n = s.pieces(back, -1, 3)
            update = self.f(0, s.binary("ADD", update, z))
            fresh = self.f(1, s.binary("ADD", fresh, s.binary("MUL", self.f(0, s.binary("ADD", reset, r)), n)))
        else:
            z, r, n = (s.matmul(h, w, transposed=True) if k < 2 else w for k, w in enumerate(s.pieces(self.r, 0, 3)))
            update, reset = self.f(0, s.binary("ADD", update, z)), self.f(0, s.binary("ADD", reset, r))
            fresh = self.f(1, s.binary("ADD", fresh, s.matmul(s.binary("MUL", reset, h), n, transposed=True)))
        return [s.binary("ADD", fresh, s.binary("MUL", update, s.binary("SUB", h, fresh)))]

    def lstm(self, given: list[Value], states: list[Value]) -> list[Value]:
        s, (h, c) = self.s, states
        back = s.pieces(s.matmul(h, self.r, transposed=True), -1, 4)
        i, o, f, g = (s.binary("ADD", x, y) for x, y in zip(given, back, strict=True))
        if self.peeps:
            i, f = (
                s.binary("ADD", i, s.binary("MUL", self.peeps[0], c)),
                s.binary("ADD", f, s.binary("MUL", self.peeps[2], c)),
            )
        enter = self.f(0, i)
        keep = s.binary("SUB", s.const(1.0, DType.F32), enter) if self.layer.coupled else self.f(0, f)
        new = s.binary("ADD", s.binary("MUL", keep, c), s.binary("MUL", enter, self.f(1, g)))
        if self.peeps:
            o = s.binary("ADD", o, s.binary("MUL", self.peeps[1], new))
        return [s.binary("MUL", self.f(0, o), self.f(2, new)), new]


def _official_layer(node: Node) -> list[Node] | None:
    """ONNX's LSTM and RNN in their usual forms; the two biases are added."""
    kind, attrs = node.op.removeprefix("Onnx"), node.attrs
    directions = {"forward": 1, "bidirectional": 2}.get(str(attrs.get("direction") or "forward"), 0)
    activations = attrs.get("activations")
    names = [str(a).lower() for a in activations] if isinstance(activations, (list, tuple)) else None
    special = any(attrs.get(key) for key in ("clip", "layout", "input_forget"))
    inputs = [*node.inputs, *[None] * 8][:8]
    hidden = attrs.get("hidden_size")
    if not directions or special or inputs[4] is not None or inputs[7] is not None or not isinstance(hidden, int):
        return None
    if names is not None and names != _USUAL[kind] * directions:
        return None
    stem, nodes = node.outputs[0].name, []
    rows = hidden * (4 if kind == "LSTM" else 1)
    bias = inputs[3]
    if bias is None:
        data = np.zeros((directions, rows), np.float32)
        both = Value(f"{stem}/bias", DType.F32, data.shape, data)
    else:
        halves = [Value(f"{stem}/bias{i}", bias.dtype) for i in (0, 1)]
        both = Value(f"{stem}/bias", bias.dtype)
        pieces: dict[str, object] = {"axis": 1, "slicePoints": [2], "sourceType": "TENSORFLOW"}
        nodes.append(Node("Slice", f"{stem}/bias0", [bias], halves, pieces))
        nodes.append(Node("BinaryOp", f"{stem}/bias", list(halves), [both], {"opType": "ADD"}))
    operands = [*inputs[:3], both, *inputs[5:7]]
    return [*nodes, Node(kind, node.name, operands, node.outputs, {"outputCount": hidden})]


def usual_first(node: Node) -> list[Node] | None:
    """The official LSTM or RNN where it says all, else a loop."""
    return _official_layer(node) or recurrent(node)


def quantized(node: Node) -> list[Node] | None:
    """A quantised LSTM as one on floats."""
    inputs = [*node.inputs]
    for at, scale in ((1, 8), (2, 9)):
        w, s = operand(node, at), operand(node, scale)
        if w is None or s is None or w.data is None or s.data is None:
            return None
        wide = w.array().astype(np.float32) * s.array()[:, :, None]
        inputs[at] = Value(f"{node.outputs[0].name}/weights{at}", DType.F32, wide.shape, wide)
    return [Node("OnnxLSTM", node.name, inputs[:8], node.outputs, dict(node.attrs))]
