"""Recurrent cells step by step, for layers whose cells no operator has: a loop over the first axis."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from MNN.frontends.common.expressions import binary
from MNN.frontends.keras.context import KerasContext
from MNN.frontends.keras.layers.activations import activated
from MNN.frontends.keras.node import KerasNode
from MNN.frontends.tensorflow.loops import UNROLLED
from MNN.ir.dtype import DType
from MNN.ir.graph import Graph, Value

Step = Callable[[Value, list[Value]], list[Value]]
"""The next states, the output first, for what a step is given and the states before it."""


def over_steps(
    ctx: KerasContext,
    name: str,
    given: Value,
    states: Sequence[Value],
    step: Step,
    steps: int | None,
    lengths: Value | None = None,
) -> tuple[Value, list[Value]]:
    """All outputs ``[steps, batch, ...]`` for ``given[steps, batch, ...]``, and the last states ``[batch, ...]``.

    ``steps`` is how many there are where that is known. With ``lengths[batch]`` states of a row stay as they are from
    its own length on.
    """
    body = Graph(ctx.unique(f"{name}/body"))
    turn = Value(ctx.unique(f"{name}/turn"), DType.I64, ())
    going = Value(ctx.unique(f"{name}/going"), DType.BOOL, ())
    before = [Value(ctx.unique(f"{name}/state"), given.dtype, s.shape) for s in states]
    outer, ctx.graph = ctx.graph, body
    try:
        now = ctx.op("GatherV2", given, turn, ctx.const(0, DType.I32))
        now.dtype = given.dtype
        after = step(now, before)
        if lengths is not None:
            live = ctx.op("BinaryOp", ctx.cast(turn, DType.I32), lengths, opType="LESS")
            live = ctx.op("Unsqueeze", live, squeezeDims=[1])
            after = [ctx.op("Select", live, new, old) for new, old in zip(after, before, strict=True)]
        more = ctx.op("Identity", going)
        more.dtype, more.shape = DType.BOOL, ()
        copy = ctx.op("Identity", after[0])
        copy.dtype = given.dtype
    finally:
        ctx.graph = outer
    body.inputs, body.outputs = [turn, going, *before], [more, *after, copy]
    if isinstance(steps, int):
        kind, most = ("UnrolledLoop" if steps <= UNROLLED else "Loop"), ctx.const(steps)
    else:
        count = ctx.op("Shape", given, hasStart=True, start=0, hasEnd=True, end=1)
        kind, most = "Loop", ctx.cast(ctx.op("Squeeze", count, squeezeDims=[0]), DType.I64)
    *last, outs = ctx.emit(kind, [most, ctx.const(True), *states], 1 + len(states), body=body)
    for v in (*last, outs):
        v.dtype = given.dtype
    return outs, last


def cell_over_steps(
    ctx: KerasContext,
    cell: KerasNode,
    x: Value,
    states: Sequence[Value | None],
    arrays: tuple[np.ndarray, np.ndarray, np.ndarray | None],
    lengths: Value | None,
) -> tuple[Value, list[Value]]:
    """An LSTM, GRU or simple cell of any activations over ``x[batch, steps, width]``. ``arrays`` are its kernels
    ``[width, gates]`` and ``[hidden, gates]``, and its biases. Results as of :func:`over_steps`.
    """
    kernel, recurrent, bias = arrays
    hidden = recurrent.shape[0]
    biases = np.zeros((2, kernel.shape[1]), np.float32) if bias is None else bias.reshape(-1, kernel.shape[1])
    products = ctx.op("MatMul", x, ctx.const(np.ascontiguousarray(kernel)))
    products.dtype = x.dtype
    given = ctx.op("Permute", binary(ctx, "ADD", products, ctx.const(biases[0])), dims=[1, 0, 2])
    given.dtype = x.dtype
    second = biases[1] if len(biases) > 1 else None
    count = kernel.shape[1] // hidden
    second = ctx.const(biases[1]) if len(biases) > 1 else None

    def step(now: Value, before: list[Value]) -> list[Value]:
        return _STEPS[count](ctx, cell, now, before, recurrent, second)

    if any(s is None for s in states):
        first = ctx.op("GatherV2", given, ctx.const(0, DType.I32), ctx.const(0, DType.I32))
        first.dtype = given.dtype
        zeros = ctx.tf_like("ZerosLike", _parts(ctx, first, count)[0])
        zeros.shape = None if x.shape is None else (x.shape[0], hidden)
        states = [zeros if s is None else s for s in states]
    steps = (x.shape or (None, None))[1]
    known = steps if isinstance(steps, int) else None
    return over_steps(ctx, cell.name, given, [s for s in states if s is not None], step, known, lengths)


def _parts(ctx: KerasContext, x: Value, count: int) -> list[Value]:
    """Equal parts of the last axis."""
    parts = [x] if count == 1 else ctx.emit("Slice", [x], count, axis=-1, sourceType="TORCH")
    for part in parts:
        part.dtype = x.dtype
    return parts


def _product(ctx: KerasContext, h: Value, matrix: np.ndarray, bias: Value | None = None) -> Value:
    made = ctx.op("MatMul", h, ctx.const(np.ascontiguousarray(matrix)))
    made.dtype = h.dtype
    return made if bias is None else binary(ctx, "ADD", made, bias)


def _simple(
    ctx: KerasContext, cell: KerasNode, now: Value, states: list[Value], recurrent: np.ndarray, _: Value | None
) -> list[Value]:  # fmt: skip
    return [activated(ctx, cell, binary(ctx, "ADD", now, _product(ctx, states[0], recurrent)))]


def _gru(
    ctx: KerasContext, cell: KerasNode, now: Value, states: list[Value], recurrent: np.ndarray, bias: Value | None
) -> list[Value]:  # fmt: skip
    """Gates are in the order update, reset, candidate; with ``reset_after`` the state's product is reset, not the
    state."""
    (h,), hidden = states, recurrent.shape[0]
    z, r, candidate = _parts(ctx, now, 3)
    after = cell.bool_attr("reset_after")
    parts = _parts(
        ctx, _product(ctx, h, recurrent if after else recurrent[:, : 2 * hidden], bias if after else None), 2 + after
    )
    z, r = (
        activated(ctx, cell, binary(ctx, "ADD", given, own), "recurrent_activation")
        for given, own in zip((z, r), parts, strict=False)
    )
    if after:
        own = binary(ctx, "MUL", r, parts[2])
    else:
        own = _product(ctx, binary(ctx, "MUL", r, h), recurrent[:, 2 * hidden :])
    candidate = activated(ctx, cell, binary(ctx, "ADD", candidate, own))
    kept = binary(ctx, "MUL", z, h)
    return [binary(ctx, "ADD", kept, binary(ctx, "MUL", binary(ctx, "SUB", 1.0, z), candidate))]


def _lstm(
    ctx: KerasContext, cell: KerasNode, now: Value, states: list[Value], recurrent: np.ndarray, _: Value | None
) -> list[Value]:  # fmt: skip
    h, c = states
    return lstm_step(ctx, cell, _parts(ctx, binary(ctx, "ADD", now, _product(ctx, h, recurrent)), 4), c)


def lstm_step(ctx: KerasContext, cell: KerasNode, gates: list[Value], c: Value) -> list[Value]:
    """The next states ``[h, c]``; gates are in the order input, forget, cell, output."""
    i, f, o = (activated(ctx, cell, gates[k], "recurrent_activation") for k in (0, 1, 3))
    new = binary(ctx, "MUL", i, activated(ctx, cell, gates[2]))
    c = binary(ctx, "ADD", binary(ctx, "MUL", f, c), new)
    return [binary(ctx, "MUL", o, activated(ctx, cell, c)), c]


_STEPS = {1: _simple, 3: _gru, 4: _lstm}
"""By how many gates a cell has."""
