"""Recurrent layers. Their states are variables of the model: what a run leaves is what the next one begins with.

A layer of the common kind is one operator; others are the cell written out, run once a step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from MNN.frontends.tflite.context import Context
from MNN.frontends.tflite.fixed_point import plus, scaled_sums, taken
from MNN.frontends.tflite.integer_cell import IntegerCell
from MNN.frontends.tflite.node import TfliteNode
from MNN.frontends.tflite.operators.lstm_cell import Cell
from MNN.frontends.tflite.operators.rescaled import single
from MNN.frontends.tflite.registry import tflite_op
from MNN.ir.dtype import DType
from MNN.ir.graph import Value

UNROLLED = 32
"""Layers of at most this many steps, known beforehand, are written out step by step."""
Step = Callable[[Context, Sequence[Value], Sequence[Value]], list[Value]]
"""From the inputs of a step and the states to the new states; the first one is the step's result."""
_FULL = 20
"""Operands of the kernel that has a matrix for every gate."""


def run_steps(
    ctx: Context, step: Step, xs: Sequence[Value], states: Sequence[Value], time_axis: int, reverse: bool = False
) -> tuple[Value, list[Value]]:
    """All steps along ``time_axis`` of ``xs``: what each gave, stacked along that axis, and the last states."""
    inner = ctx.nested("steps")
    turning = [Value(ctx.unique(f"{v.name}/carried"), v.dtype, v.shape) for v in states]
    slices = []
    for x in xs:
        rest = None if x.shape is None else tuple(d for i, d in enumerate(x.shape) if i != time_axis)
        slices.append(Value(ctx.unique(f"{x.name}/step"), x.dtype, rest))
    inner.graph.inputs = [*turning, *slices]
    made = step(inner, slices, turning)
    inner.graph.outputs = [*made, inner.op("Identity", made[0])]
    first = xs[0].shape
    length = None if first is None else first[time_axis]
    op = "UnrolledScan" if isinstance(length, int) and length <= UNROLLED else "Scan"
    flags = [int(reverse)]
    outputs = ctx.emit(
        op, [*states, *xs], len(states) + 1, body=inner.graph, numScanInputs=len(xs),
        inputAxes=[time_axis] * len(xs), outputAxes=[time_axis], inputReverse=flags * len(xs), outputReverse=flags,
    )  # fmt: skip
    return outputs[-1], outputs[:-1]


def _time_axis(node: TfliteNode) -> int:
    return 0 if node.flag("time_major") else 1


# -- plain recurrent layers --------------------------------------------------------------------------------------------


def _rnn_step(ctx: Context, node: TfliteNode, at: Sequence[int], auxiliary: int | None = None) -> Step:
    """``act(W x + R h + b)``; ``at``: where W, R and b are among the operands."""
    w, r, bias = (ctx.real(node, i) for i in at)
    extra = None if auxiliary is None else ctx.real(node, auxiliary)

    def step(inner: Context, xs: Sequence[Value], states: Sequence[Value]) -> list[Value]:
        total = inner.op("MatMul", xs[0], w, bias, transposeB=True)
        total = inner.binary("ADD", total, inner.op("MatMul", states[0], r, transposeB=True))
        if extra is not None:
            total = inner.binary("ADD", total, inner.op("MatMul", xs[1], extra, transposeB=True))
        made = inner.activated(node, total)
        return [inner.op("Identity", total) if made is total else made]

    return step


@tflite_op("RNN")
def rnn(ctx: Context, node: TfliteNode) -> Value:
    (made,) = _rnn_step(ctx, node, (1, 2, 3))(ctx, [ctx.real(node, 0)], [ctx.real(node, 4)])
    ctx.remember(node, 4, made)
    return made


@tflite_op("UNIDIRECTIONAL_SEQUENCE_RNN")
def sequence_rnn(ctx: Context, node: TfliteNode) -> Value:
    step = _rnn_step(ctx, node, (1, 2, 3))
    made, (last,) = run_steps(ctx, step, [ctx.real(node, 0)], [ctx.real(node, 4)], _time_axis(node))
    ctx.remember(node, 4, last)
    return made


@tflite_op("BIDIRECTIONAL_SEQUENCE_RNN")
def bidirectional_rnn(ctx: Context, node: TfliteNode) -> list[Value]:
    """An auxiliary input goes to both directions, or, without weights of its own, to the second alone."""
    x, axis = ctx.real(node, 0), _time_axis(node)
    other = ctx.maybe_real(node, 9)
    crossed = node.optional(10) is not None
    sides = []
    for first, reverse in ((1, False), (5, True)):
        own = other if other is not None and reverse and not crossed else x
        xs = [own, other] if crossed and other is not None else [own]
        step = _rnn_step(ctx, node, range(first, first + 3), (11 if reverse else 10) if crossed else None)
        made, (last,) = run_steps(ctx, step, xs, [ctx.real(node, first + 3)], axis, reverse)
        ctx.remember(node, first + 3, last)
        sides.append(made)
    return _merged(ctx, node, sides)


def _merged(ctx: Context, node: TfliteNode, sides: list[Value]) -> list[Value]:
    return [ctx.op("Concat", *sides, axis=-1)] if node.flag("merge_outputs") else sides


# -- long short-term memory --------------------------------------------------------------------------------------------


@tflite_op("LSTM")
def lstm(ctx: Context, node: TfliteNode) -> list[Value]:
    """One step. The basic kernel has its weights in one matrix."""
    if node.option("kernel_type", "FULL") == "BASIC" or len(node.inputs) < _FULL:
        return _basic_lstm(ctx, node)
    cell = Cell.of(ctx, node, inputs=1, normalized=20)
    hidden, state = cell.step(ctx, [ctx.real(node, 0)], [ctx.real(node, 18), ctx.real(node, 19)])
    ctx.remember(node, 18, hidden)
    ctx.remember(node, 19, state)
    return [hidden]


def _basic_lstm(ctx: Context, node: TfliteNode) -> list[Value]:
    """Operands: input, last output, weights ``[4 * H, I + H]``, biases, last cell state. Gates: input, new, forget,
    output."""
    x, before, w, bias, cell = (ctx.real(node, i) for i in range(5))
    both = ctx.op("Concat", x, before, axis=-1)
    gates = ctx.op("MatMul", both, w, bias, transposeB=True)
    enter, new, keep, leave = ctx.emit("Slice", [gates], 4, axis=-1, sourceType="TENSORFLOW")
    kept = ctx.binary("MUL", cell, ctx.op("Sigmoid", keep))
    state = ctx.binary("ADD", kept, ctx.binary("MUL", ctx.op("Sigmoid", enter), ctx.op("TanH", new)))
    out = ctx.binary("MUL", ctx.op("TanH", state), ctx.op("Sigmoid", leave))
    ctx.remember(node, 1, out)
    ctx.remember(node, 4, state)
    return [out, state, both, gates][: max(len(node.outputs), 1)]


@tflite_op("UNIDIRECTIONAL_SEQUENCE_LSTM")
def sequence_lstm(ctx: Context, node: TfliteNode) -> Value:
    whole = IntegerCell.of(node)
    if whole is not None:
        made, last = _integer_lstm(ctx, node, whole)
        for at, value in zip((18, 19), last, strict=True):
            ctx.remember(node, at, value)
        return made
    cell = Cell.of(ctx, node, inputs=1, normalized=20)
    made, (hidden, state) = _lstm(ctx, node, cell, [ctx.real(node, 0)], (18, 19), _time_axis(node), False)
    ctx.remember(node, 18, hidden)
    ctx.remember(node, 19, state)
    return made


def _integer_lstm(ctx: Context, node: TfliteNode, cell: IntegerCell) -> tuple[Value, list[Value]]:
    """The results and last states: of one operator, or of the cell written out."""
    inputs, states, axis = cell.inputs(ctx), [node.input(18), node.input(19)], _time_axis(node)
    together = cell.layer(ctx, inputs if axis == 0 else ctx.permuted(inputs, [1, 0, 2]), states)
    if together is None:
        return run_steps(ctx, cell.step, [inputs], states, axis)
    y, *last = together
    return y if axis == 0 else ctx.permuted(y, [1, 0, 2]), last


@tflite_op("BIDIRECTIONAL_SEQUENCE_LSTM")
def bidirectional_lstm(ctx: Context, node: TfliteNode) -> list[Value]:
    x, other, axis = ctx.real(node, 0), ctx.maybe_real(node, 39), 0 if node.flag("time_major", True) else 1
    crossed = node.optional(40) is not None or node.optional(41) is not None
    sides = []
    for first, states, auxiliary, reverse in ((1, (35, 36), 40, False), (18, (37, 38), 44, True)):
        own = other if other is not None and reverse and not crossed else x
        cell = Cell.of(ctx, node, inputs=first, auxiliary=auxiliary if crossed else None)
        xs = [own, other] if crossed and other is not None else [own]
        made, last = _lstm(ctx, node, cell, xs, states, axis, reverse)
        for at, value in zip(states, last, strict=True):
            ctx.remember(node, at, value)
        sides.append(made)
    return _merged(ctx, node, sides)


def _lstm(
    ctx: Context, node: TfliteNode, cell: Cell, xs: Sequence[Value], at: Sequence[int], axis: int, reverse: bool
) -> tuple[Value, list[Value]]:
    """One direction of a layer: its results and last states."""
    states = [ctx.real(node, i) for i in at]
    if not cell.plain or len(xs) > 1:
        return run_steps(ctx, cell.step, xs, states, axis, reverse)
    x = xs[0] if axis == 0 else ctx.permuted(xs[0], [1, 0, 2])
    first = [ctx.op("Unsqueeze", s, squeezeDims=[0]) for s in states]
    y, *last = ctx.emit(
        "OnnxLSTM", [x, *cell.stacked(ctx), None, *first, cell.holes(ctx)], 3,
        direction="reverse" if reverse else "forward",
        hidden_size=cell.hidden,
    )  # fmt: skip
    y = ctx.op("Squeeze", y, squeezeDims=[1])
    return y if axis == 0 else ctx.permuted(y, [1, 0, 2]), [ctx.op("Squeeze", v, squeezeDims=[0]) for v in last]


# -- SVDF ------------------------------------------------------------------------------------------------------------


@tflite_op("SVDF")
def svdf(ctx: Context, node: TfliteNode) -> Value:
    """A filter over features and time, kept as a product of two vectors (Nakkiran et al., "Compressing deep neural
    networks using a rank-constrained topology", 2015). The state holds the features of the last ``memory`` steps."""
    rank, sizes = node.number("rank"), ctx.static_shape(node.input(2))
    if sizes is None or len(sizes) != 2 or rank < 1 or sizes[0] % rank:
        raise node.malformed(f"weights of shape {None if sizes is None else list(sizes)} with rank {rank}")
    whole = _svdf_of_integers(ctx, node, rank, *sizes)
    if whole is not None:
        return whole
    x, features, times = (ctx.real(node, i) for i in range(3))
    now = ctx.op("MatMul", x, features, transposeB=True)
    window, shares = _svdf_window(ctx, now, ctx.real(node, 4), times, *sizes)
    ctx.remember(node, 4, window)
    total, bias = _svdf_total(ctx, shares, rank, sizes[0]), ctx.maybe_real(node, 3)
    return ctx.activated(node, total if bias is None else ctx.binary("ADD", total, bias))


def _svdf_window(
    ctx: Context, now: Value, state: Value, times: Value, filters: int, memory: int
) -> tuple[Value, Value]:
    """The state with the features of this step behind those of the last ones, and its products with ``times``."""
    past = ctx.op("Reshape", state, ctx.const([-1, filters, memory]))
    cut = ([0, 0, 1], [1 << 30, filters, memory], [1, 1, 1])
    kept = ctx.op("StridedSlice", past, *(ctx.const(v) for v in cut))
    window = ctx.op("Concat", kept, ctx.op("Unsqueeze", now, squeezeDims=[2]), axis=2)
    numbers = window if times.dtype is DType.F32 else ctx.cast(window, DType.I32)
    shares = ctx.op("Reduction", ctx.binary("MUL", numbers, times), operation="SUM", dim=[2], keepDims=False)
    return ctx.op("Reshape", window, ctx.const([-1, filters * memory])), shares


def _svdf_total(ctx: Context, shares: Value, rank: int, filters: int) -> Value:
    parts = ctx.op("Reshape", shares, ctx.const([-1, filters // rank, rank]))
    return ctx.op("Reduction", parts, operation="SUM", dim=[2], keepDims=False)


def _svdf_of_integers(ctx: Context, node: TfliteNode, rank: int, filters: int, memory: int) -> Value | None:
    """Bytes in and out, a state of 16 bits, which is where features end: to the bits of LiteRT's reference kernel
    (``EvalIntegerSVDF`` in ``reference/svdf.h``), which applies no activation. None for other forms."""
    kinds = ("INT8", "INT8", "INT16", "INT32", "INT16")
    tensors = [node.tensors_in[i] if i < len(node.tensors_in) else None for i in range(5)]
    found = [node.quantization(i) for i in (0, 1, 2, 4)] + [node.result_quantization()]
    if any(t is not None and t.type != kind for t, kind in zip(tensors, kinds, strict=True)):
        return None
    if node.tensors_out[0].type != "INT8" or any(q is None or not single(q) for q in found):
        return None
    x, w, times, state, result = (q for q in found if q is not None)
    if any(int(q.zero.reshape(-1)[0]) for q in (w, times, state)) or node.input(1).data is None:
        return None
    factors = [a.scale * b.scale / c.scale for a, b, c in ((x, w, state), (state, times, result))]
    if not all(taken(f) for f in factors):
        return None
    features = ctx.permuted(node.input(1), [1, 0])
    dots = ctx.op("MatMulInteger", node.input(0), features, ctx.const(x.zero.reshape(()), DType.I8))
    now = ctx.op("ReLU6", scaled_sums(ctx, dots, factors[0]), minValue=-32768.0, maxValue=32767.0)
    line = ctx.cast(node.input(2), DType.I32)
    window, shares = _svdf_window(ctx, ctx.cast(now, DType.I16), node.input(4), line, filters, memory)
    ctx.remember(node, 4, window)
    total, bias = _svdf_total(ctx, shares, rank, filters), node.optional(3)
    total = total if bias is None else ctx.binary("ADD", total, bias)
    made = plus(ctx, scaled_sums(ctx, total, factors[1]), int(result.zero.reshape(-1)[0]))
    return ctx.cast(ctx.op("ReLU6", made, minValue=-128.0, maxValue=127.0), DType.I8)
