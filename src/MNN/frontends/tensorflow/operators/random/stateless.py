"""Random numbers that are a function of their seed: the same ones as TensorFlow's."""

from __future__ import annotations

import math

from MNN.errors import FormatError
from MNN.frontends.common.expressions import binary, cast, clamp, unary
from MNN.frontends.tensorflow.context import Context
from MNN.frontends.tensorflow.node import TfNode
from MNN.frontends.tensorflow.operators.random import philox
from MNN.frontends.tensorflow.registry import tf_op
from MNN.ir.dtype import DType
from MNN.ir.graph import Value

_MANTISSA = {DType.F64: 52, DType.F32: 23, DType.F16: 10, DType.BF16: 7}
_LEAST = 1e-7
"""The smallest uniform number of which the normal ones take the logarithm."""
_PHILOX, _ANY = 1, 3


def _number(ctx: Context, x: Value, at: int) -> Value:
    """One number of a line, as u64."""
    out = ctx.op("GatherV2", x, ctx.const(at, DType.I32), ctx.const(0, DType.I32))
    out.dtype = x.dtype
    return cast(ctx, out, DType.U64)


def _of_seed(ctx: Context, seed: Value) -> philox.State:
    return philox.scrambled(ctx, [w for i in (0, 1) for w in philox.halves(ctx, _number(ctx, seed, i))])


def _state(ctx: Context, node: TfNode) -> philox.State:
    """What the operands tell: a seed in the first form of the operators, a key, a counter and a generator later."""
    if "V2" not in node.op:
        return _of_seed(ctx, node.input(1))
    algorithm = ctx.constant_ints(node.input(3))
    if algorithm is None or algorithm[0] not in (_PHILOX, _ANY):
        raise node.unsupported(f"the generator {algorithm}", "use Philox, which TensorFlow chooses on processors")
    counter = [w for i in (0, 1) for w in philox.halves(ctx, _number(ctx, node.input(2), i))]
    return philox.State(philox.halves(ctx, _number(ctx, node.input(1), 0)), counter)


def _filled(ctx: Context, node: TfNode, wide: bool) -> tuple[list[Value], Value, Value]:
    """Four words ``[blocks]`` for every four numbers (``wide``: two), how many numbers there are, and their shape."""
    shape = cast(ctx, node.input(0), DType.I64)
    count = ctx.op("Reduction", shape, operation="PROD", dim=[0], keepDims=False)
    count.dtype = DType.I64
    each = 2 if wide else 4
    turns = binary(ctx, "FLOORDIV", binary(ctx, "ADD", count, each - 1), each)
    return philox.blocks(ctx, _state(ctx, node), turns), count, shape


def _arranged(ctx: Context, parts: list[Value], count: Value, shape: Value) -> Value:
    """Numbers side by side, cut to ``count`` and in their shape."""
    line = ctx.op("Reshape", ctx.op("Pack", *parts, axis=1), ctx.const([-1]))
    line.dtype = parts[0].dtype
    end = ctx.op("Unsqueeze", count, squeezeDims=[0])
    kept = ctx.op("StridedSlice", line, ctx.const([0]), end, ctx.const([0]), ctx.const([1]), fromType=1)
    out = ctx.op("Reshape", kept, shape)
    out.dtype = line.dtype
    return out


def _uniform(ctx: Context, words: list[Value], dtype: DType) -> list[Value]:
    """From 0 to below 1, of as many bits as a mantissa has; two words make one f64."""
    bits = _MANTISSA[dtype]
    if dtype is DType.F64:
        mask = (1 << (bits - 32)) - 1
        whole = [philox.whole(ctx, words[i + 1], binary(ctx, "BITWISE_AND", words[i], mask)) for i in (0, 2)]
    else:
        whole = [binary(ctx, "BITWISE_AND", w, (1 << bits) - 1) for w in words]
    wide = DType.F64 if dtype is DType.F64 else DType.F32
    return [binary(ctx, "MUL", cast(ctx, w, wide), 2.0**-bits) for w in whole]


def _floats(node: TfNode) -> DType:
    dtype = node.dtype_attr("dtype", DType.F32)
    if dtype not in _MANTISSA:
        raise FormatError(f"{node.where}: random numbers of type {dtype.value}, expected floats")
    return dtype


@tf_op("StatelessRandomUniform", "StatelessRandomUniformV2")
def uniform(ctx: Context, node: TfNode) -> Value:
    dtype = _floats(node)
    words, count, shape = _filled(ctx, node, dtype is DType.F64)
    return cast(ctx, _arranged(ctx, _uniform(ctx, words, dtype), count, shape), dtype)


@tf_op("StatelessRandomNormal", "StatelessRandomNormalV2")
def normal(ctx: Context, node: TfNode) -> Value:
    """Pairs by Box and Muller's method (1958)."""
    dtype = _floats(node)
    words, count, shape = _filled(ctx, node, dtype is DType.F64)
    even = _uniform(ctx, words, DType.F64 if dtype is DType.F64 else DType.F32)
    parts = []
    for i in range(0, len(even), 2):
        radius = unary(ctx, "LOG", clamp(ctx, even[i], _LEAST, math.inf))
        radius = unary(ctx, "SQRT", binary(ctx, "MUL", radius, -2.0))
        angle = binary(ctx, "MUL", even[i + 1], math.tau)
        parts += [binary(ctx, "MUL", unary(ctx, kind, angle), radius) for kind in ("SIN", "COS")]
    return cast(ctx, _arranged(ctx, parts, count, shape), dtype)


@tf_op("StatelessRandomUniformInt", "StatelessRandomUniformIntV2")
def uniform_int(ctx: Context, node: TfNode) -> Value:
    """From a number to below another one."""
    low, high = (cast(ctx, v, DType.I64) for v in node.tensors(-2))
    words, count, shape, dtype = _integers(ctx, node)
    span = cast(ctx, binary(ctx, "SUB", high, low), DType.U64)
    rest = [cast(ctx, binary(ctx, "MOD", w, span), DType.I64) for w in words]
    return cast(ctx, binary(ctx, "ADD", _arranged(ctx, rest, count, shape), low), dtype)


@tf_op("StatelessRandomUniformFullInt", "StatelessRandomUniformFullIntV2")
def uniform_full_int(ctx: Context, node: TfNode) -> Value:
    """All numbers that the type has."""
    words, count, shape, dtype = _integers(ctx, node)
    return cast(ctx, _arranged(ctx, words, count, shape), dtype)


def _integers(ctx: Context, node: TfNode) -> tuple[list[Value], Value, Value, DType]:
    dtype = node.dtype_attr("dtype", DType.I32)
    if dtype not in (DType.I32, DType.I64, DType.U32, DType.U64):
        raise FormatError(f"{node.where}: random numbers of type {dtype.value}, expected integers")
    words, count, shape = _filled(ctx, node, dtype.size == 8)
    return [philox.whole(ctx, *words[i : i + 2]) for i in (0, 2)] if dtype.size == 8 else words, count, shape, dtype


@tf_op("StatelessRandomGetKeyCounter", "StatelessRandomGetKeyCounterAlg")
def key_counter(ctx: Context, node: TfNode) -> list[Value]:
    state = _of_seed(ctx, node.input(0))
    key = ctx.op("Reshape", philox.whole(ctx, *state.key), ctx.const([1]))
    counter = ctx.op("Pack", *(philox.whole(ctx, *state.counter[i : i + 2]) for i in (0, 2)), axis=0)
    key.dtype = counter.dtype = DType.U64
    return [key, counter, ctx.const(_PHILOX, DType.I32)][: 3 if node.op.endswith("Alg") else 2]


@tf_op("StatelessRandomGetAlg")
def algorithm(ctx: Context, node: TfNode) -> Value:
    return ctx.const(_PHILOX, DType.I32)
