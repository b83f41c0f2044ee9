"""LSTM, GRU and RNN over whole sequences, padded or packed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from MNN.frontends.torch.aten.recurrent import packed
from MNN.frontends.torch.builder import TorchBuilder
from MNN.frontends.torch.registry import apply, aten
from MNN.ir.dtype import DType
from MNN.ir.graph import Value

_ORDER = {"LSTM": (0, 3, 1, 2), "GRU": (1, 0, 2), "RNN": (0,)}
"""Torch has the gates i f g o, and r z n; the operators here i o f g, and z r n."""


@aten("lstm")
def lstm(ctx: TorchBuilder, x: Value, hx: Sequence[Value] | Value, *args: object) -> list[Value]:
    """``lstm(x, (h, c), weights, has_biases, layers, dropout, training, bidirectional, batch_first)``, or of packed
    sequences ``lstm(steps, sizes, (h, c), weights, has_biases, layers, dropout, training, bidirectional)``."""
    if isinstance(hx, Value):
        states, *others = args
        return _packed(ctx, "LSTM", x, hx, states, others, None)
    return _layers(ctx, "LSTM", x, hx, args, None)


@aten("gru", "rnn_tanh", "rnn_relu")
def one_state(ctx: TorchBuilder, x: Value, hx: Value, *args: object) -> list[Value]:
    """The same of layers that have one state: ``gru(x, h, weights, ...)``, ``gru(steps, sizes, h, weights, ...)``."""
    kind, activation = {"gru": ("GRU", None), "rnn_tanh": ("RNN", "tanh"), "rnn_relu": ("RNN", "relu")}[ctx.name]
    if args and isinstance(args[0], Value):
        return _packed(ctx, kind, x, hx, [args[0]], args[1:], activation)
    return _layers(ctx, kind, x, [hx], args, activation)


def _packed(
    ctx: TorchBuilder, kind: str, data: Value, sizes: Value, states: object, args: Sequence[object],
    activation: str | None,
) -> list[Value]:  # fmt: skip
    there = packed.steps(ctx, sizes)
    x = packed.padded(ctx, data, sizes, there)
    assert isinstance(states, (list, tuple))
    y, *ends = _layers(ctx, kind, x, states, [*args, False], activation, packed.lengths(ctx, there))
    return [packed.packed(ctx, y, there), *ends]


def _layers(
    ctx: TorchBuilder, kind: str, x: Value, states: Sequence[Value], args: Sequence[object], activation: str | None,
    lengths: Value | None = None,
) -> list[Value]:  # fmt: skip
    if len(args) != 7:
        raise ctx.unsupported(f"a layer with {len(args)} arguments behind its states", "is the file damaged?")
    weights, biases, layers, _, training, both, batch_first = args
    assert isinstance(weights, (list, tuple))
    assert isinstance(layers, int)
    if training and args[3]:
        raise ctx.unsupported("dropout in training", "call model.eval() before exporting")
    directions = 2 if both else 1
    each = 4 if biases else 2
    each += kind == "LSTM" and len(weights) == layers * directions * (each + 1)  # a projection
    if len(weights) != layers * directions * each:
        raise ctx.unsupported(f"{len(weights)} weights of {layers} layers", "is the file damaged?")
    rank = ctx.rank_of(x)
    if rank == 2:  # without a batch
        x, states = ctx.unsqueeze(x, 1), [ctx.unsqueeze(s, 1) for s in states]
    elif batch_first:
        x = ctx.op("Permute", x, dims=[1, 0, 2])
    lasts: list[list[Value]] = [[] for _ in states]
    for number in range(layers):
        at = number * directions * each
        own = [weights[at + d * each : at + (d + 1) * each] for d in range(directions)]
        if layers > 1:
            starts = [_part(ctx, s, number * directions, directions) for s in states]
        else:
            starts = list(states)
        run = layer if each in (2, 4) else _projected_layer
        x, *ends = run(ctx, kind, x, starts, own, activation, lengths)
        for held, end in zip(lasts, ends, strict=True):
            held.append(end)
    ends = [held[0] if layers == 1 else ctx.op("Concat", *held, axis=0) for held in lasts]
    if rank == 2:
        return [ctx.squeeze(x, 1), *(ctx.squeeze(e, 1) for e in ends)]
    return [ctx.op("Permute", x, dims=[1, 0, 2]) if batch_first else x, *ends]


def _part(ctx: TorchBuilder, x: Value, start: int, count: int) -> Value:
    bounds = [ctx.const([n]) for n in (start, start + count, 0)]
    return ctx.op("StridedSlice", x, *bounds, fromType=1)


def layer(
    ctx: TorchBuilder,
    kind: str,
    x: Value,
    starts: Sequence[Value],
    own: Sequence[Sequence[Value]],
    activation: str | None,
    lengths: Value | None = None,
) -> list[Value]:
    """One layer of one or two directions over ``x [T, B, I]``: ``[T, B, D * H]`` and the last states ``[D, B, H]``; of
    sequences of these ``lengths [B]``."""
    hidden = ctx.known(ctx.size(own[0][1], -1), "the size of hidden states")
    w, r = (_stacked(ctx, kind, [d[i] for d in own], hidden) for i in (0, 1))
    bias = None
    if len(own[0]) > 2:
        halves = [_stacked(ctx, kind, [d[i] for d in own], hidden) for i in (2, 3)]
        numbers = [ctx.constant(h) for h in halves]
        if kind != "GRU" and numbers[0] is not None and numbers[1] is not None:
            bias = ctx.const(numbers[0] + numbers[1])
        else:
            bias = ctx.op("Concat", *halves, axis=1)
    outputs = 3 if kind == "LSTM" else 2
    both = len(own) == 2
    summed = bias is not None and bias.is_const and kind != "GRU"
    if summed and activation in (None, "tanh") and lengths is None:
        found = ctx.emit(kind, [x, w, r, bias, *starts], outputs, outputCount=hidden)
    else:
        if summed and bias is not None:  # that form wants both biases
            bias = ctx.const(np.concatenate([bias.array(), np.zeros_like(bias.array())], 1))
        names = None if activation in (None, "tanh") else [activation] * len(own)
        attrs: dict[str, object] = {"linear_before_reset": 1} if kind == "GRU" else {}
        attrs |= {"direction": "bidirectional" if both else "forward", "activations": names, "hidden_size": hidden}
        limits = None if lengths is None else ctx.cast(lengths, DType.I32)
        found = ctx.emit(f"Onnx{kind}", [x, w, r, bias, limits, *starts], outputs, **attrs)
    y, *lasts = found  # y [T, D, B, H]
    if both:
        y = ctx.op("Reshape", ctx.op("Permute", y, dims=[0, 2, 1, 3]), ctx.const([0, 0, -1]))
    else:
        y = ctx.squeeze(y, 1)
    return [y, *lasts]


def _projected_layer(
    ctx: TorchBuilder,
    kind: str,
    x: Value,
    starts: Sequence[Value],
    own: Sequence[Sequence[Value]],
    activation: str | None,
    lengths: Value | None = None,
) -> list[Value]:
    """The same where hidden states are multiplied by a matrix before they come out and go on (``proj_size``; Sak et al.
    2014, arXiv:1402.1128): that product becomes part of the recurrent weights, and of what is made of the results.

    The first states are brought to the sizes inside by the pseudo-inverse, which that product takes back.
    """
    projections, plain, inside = [], [], []
    for i, (w, r, *rest) in enumerate(own):
        numbers, recurrent = ctx.constant(rest[-1]), ctx.constant(r)
        if numbers is None or recurrent is None:
            raise ctx.unsupported("a projection whose weights are no constants", "keep them parameters of the module")
        kept = recurrent.dtype
        wide = recurrent.astype(np.float64) @ numbers.astype(np.float64)
        plain.append([w, ctx.const(wide.astype(kept)), *rest[:-1]])
        projections.append(ctx.const(np.ascontiguousarray(numbers.T)))
        inverse = ctx.const(np.linalg.pinv(numbers.astype(np.float64)).T.astype(kept))
        inside.append(apply(ctx, "matmul", [_part(ctx, starts[0], i, 1), inverse], {}))
    begin = inside[0] if len(inside) == 1 else apply(ctx, "cat", [inside, 0], {})
    y, last, *cell = layer(ctx, kind, x, [begin, *starts[1:]], plain, activation, lengths)
    lines = apply(ctx, "chunk", [y, len(own), 2], {})
    results = [apply(ctx, "matmul", [v, p], {}) for v, p in zip(lines, projections, strict=True)]
    ends = [apply(ctx, "matmul", [_part(ctx, last, i, 1), p], {}) for i, p in enumerate(projections)]
    if len(own) == 1:
        return [results[0], ends[0], *cell]
    return [apply(ctx, "cat", [results, 2], {}), apply(ctx, "cat", [ends, 0], {}), *cell]


def _stacked(ctx: TorchBuilder, kind: str, parts: Sequence[Value], hidden: int) -> Value:
    """One of the weights for all directions, with the gates in the order that the operators have."""
    order = _ORDER[kind]
    turned = []
    for part in parts:
        numbers = ctx.constant(part)
        if numbers is not None:
            gates = numbers.reshape(len(order), hidden, *numbers.shape[1:])[list(order)]
            turned.append(ctx.const(np.ascontiguousarray(gates.reshape(1, *numbers.shape))))
        else:
            pieces = ctx.emit("Slice", [part], len(order), axis=0, sourceType="TORCH") if len(order) > 1 else [part]
            joined = ctx.op("Concat", *[pieces[i] for i in order], axis=0) if len(order) > 1 else part
            turned.append(ctx.op("Unsqueeze", joined, squeezeDims=[0]))
    if all(t.is_const for t in turned):
        return turned[0] if len(turned) == 1 else ctx.const(np.concatenate([t.array() for t in turned], 0))
    return ctx.op("Concat", *turned, axis=0) if len(turned) > 1 else turned[0]
