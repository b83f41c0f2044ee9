"""Recurrent layers over the first axis, with marks of where sequences begin."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from MNN.frontends.caffe.context import Context
from MNN.frontends.caffe.node import CaffeNode
from MNN.frontends.caffe.registry import caffe_layer
from MNN.frontends.common.expressions import binary
from MNN.ir.graph import Value

MAX_STEPS = 1 << 10
_ONNX_GATES = (0, 2, 1, 3)
"""Input, output, forget and cell gate among Caffe's input, forget, output and cell gate."""


@dataclass(frozen=True)
class _Sequence:
    """What both layers begin with: the input's share of all gates ``[T, N, G * H]``, marks ``[T, N, 1]`` that are 0
    where a sequence begins, what was handed in of the last run, and the weights that follow."""

    gates: Value
    marks: Value
    steps: int
    samples: int
    hidden: int
    states: list[Value]
    next_weight: int

    def step(self, ctx: Context, x: Value, t: int) -> Value:
        return ctx.sliced(x, 3, 0, t, 1)


def _begin(ctx: Context, node: CaffeNode, gates: int, states: int) -> _Sequence:
    param = node.params("recurrent_param")
    hidden, exposed = param.integer("num_output", 0), param.flag("expose_hidden", False)
    given = states if exposed else 0
    static = len(node.inputs) > 2 + given
    if hidden < 1 or len(node.inputs) < 2 + given or node.outputs not in (1, 1 + given):
        raise node.malformed(f"{hidden} numbers of {len(node.inputs)} bottoms for {node.outputs} tops")
    steps, samples, *rest = node.sizes(0)
    if steps > MAX_STEPS:
        raise node.unsupported(f"a sequence of {steps} steps", f"use {MAX_STEPS} at most")
    width = math.prod(rest)
    x = node.input(0) if len(rest) == 1 else ctx.reshaped(node.input(0), [steps, samples, width])
    weight, bias = node.weight(0, gates * hidden, width), ctx.const(node.weight(1, gates * hidden))
    shares = binary(ctx, "ADD", ctx.op("MatMul", x, ctx.const(weight), transposeB=True), bias)
    if static:
        flat = ctx.op("Flatten", node.input(2), axis=1)
        inner = math.prod(node.sizes(2)[1:])
        matrix = ctx.const(node.weight(2, gates * hidden, inner))
        shares = binary(ctx, "ADD", shares, ctx.op("MatMul", flat, matrix, transposeB=True))
    first = node.inputs[len(node.inputs) - given :]
    zeros = [ctx.const(np.zeros((1, samples, hidden), np.float32)) for _ in range(states - given)]
    marks = ctx.reshaped(node.input(1), [steps, samples, 1])
    return _Sequence(shares, marks, steps, samples, hidden, [*first, *zeros], 2 + static)


@caffe_layer("LSTM")
def lstm(ctx: Context, node: CaffeNode) -> list[Value]:
    """``c = cont * f * c + i * g``, ``h = o * tanh(c)`` (Hochreiter & Schmidhuber 1997; Donahue et al.,
    arXiv:1411.4389). States begin at zero in every run, unless they are handed in (``expose_hidden``)."""
    marks = ctx.constant(node.inputs[1]) if len(node.inputs) == 2 else None
    if marks is not None and (marks[1:] == 1).all() and node.outputs == 1:
        return [_one_sequence(ctx, node)]
    s = _begin(ctx, node, 4, 2)
    matrix, hidden = ctx.const(node.weight(s.next_weight, 4 * s.hidden, s.hidden)), s.hidden
    h, c = s.states
    results = []
    for t in range(s.steps):
        mark = s.step(ctx, s.marks, t)
        gates = ctx.op("MatMul", binary(ctx, "MUL", h, mark), matrix, transposeB=True)
        gates = binary(ctx, "ADD", gates, s.step(ctx, s.gates, t))
        smooth = ctx.op("Sigmoid", ctx.sliced(gates, 3, 2, 0, 3 * hidden))
        i, f, o = (ctx.sliced(smooth, 3, 2, k * hidden, hidden) for k in range(3))
        g = ctx.op("TanH", ctx.sliced(gates, 3, 2, 3 * hidden, hidden))
        kept = binary(ctx, "MUL", binary(ctx, "MUL", f, mark), c)
        c = binary(ctx, "ADD", kept, binary(ctx, "MUL", i, g))
        h = binary(ctx, "MUL", o, ctx.op("TanH", c))
        results.append(h)
    return [_joined(ctx, results), ctx.renamed(h), ctx.renamed(c)][: node.outputs]


def _one_sequence(ctx: Context, node: CaffeNode) -> Value:
    """All steps belong together: an operator of its own."""
    param = node.params("recurrent_param")
    hidden = param.integer("num_output", 0)
    param.flag("expose_hidden", False)
    steps, samples, *rest = node.sizes(0)
    width = math.prod(rest)
    order = [k * hidden + i for k in _ONNX_GATES for i in range(hidden)]
    arrays = node.weight(0, 4 * hidden, width), node.weight(2, 4 * hidden, hidden), node.weight(1, 4 * hidden)
    w, r, b = (ctx.const(np.ascontiguousarray(a[order][None])) for a in arrays)
    x = node.input(0) if len(rest) == 1 else ctx.reshaped(node.input(0), [steps, samples, width])
    y, *_ = ctx.emit("LSTM", [x, w, r, b], 3, outputCount=hidden)
    return ctx.op("Squeeze", y, squeezeDims=[1])


@caffe_layer("RNN")
def rnn(ctx: Context, node: CaffeNode) -> list[Value]:
    """``h = tanh(W h + U x + b)``, ``o = tanh(V h + d)``."""
    s = _begin(ctx, node, 1, 1)
    k, hidden = s.next_weight, s.hidden
    inner, outer = (ctx.const(node.weight(k + i, hidden, hidden)) for i in (0, 1))
    bias = ctx.const(node.weight(k + 2, hidden))
    (h,) = s.states
    results = []
    for t in range(s.steps):
        share = ctx.op("MatMul", binary(ctx, "MUL", h, s.step(ctx, s.marks, t)), inner, transposeB=True)
        h = ctx.op("TanH", binary(ctx, "ADD", share, s.step(ctx, s.gates, t)))
        results.append(h)
    made = binary(ctx, "ADD", ctx.op("MatMul", _joined(ctx, results), outer, transposeB=True), bias)
    return [ctx.op("TanH", made), ctx.renamed(h)][: node.outputs]


def _joined(ctx: Context, steps: list[Value]) -> Value:
    return ctx.emit("Concat", steps, axis=0)[0]
