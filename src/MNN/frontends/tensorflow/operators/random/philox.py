"""The generator Philox4x32 with ten rounds (J. Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011), as
elementwise arithmetic of words: u64 tensors whose numbers are below 2**32."""

from __future__ import annotations

from dataclasses import dataclass

from MNN.frontends.common.expressions import binary
from MNN.frontends.common.graph_builder import GraphBuilder
from MNN.ir.dtype import DType
from MNN.ir.graph import Value
from MNN.ops.core.datatypes import data_type

_ROUNDS = 10
_FACTORS = (0xD2511F53, 0xCD9E8D57)
_STEPS = (0x9E3779B9, 0xBB67AE85)
_WORD = 0xFFFFFFFF
Words = list[Value]


@dataclass(frozen=True)
class State:
    """Two words of a key, and four of a counter, the lowest first."""

    key: Words
    counter: Words


def _low(ctx: GraphBuilder, x: Value) -> Value:
    return binary(ctx, "BITWISE_AND", x, _WORD)


def _high(ctx: GraphBuilder, x: Value) -> Value:
    return binary(ctx, "RIGHTSHIFT", x, 32)


def halves(ctx: GraphBuilder, x: Value) -> Words:
    """The two words of 64-bit numbers, the lower one first."""
    return [_low(ctx, x), _high(ctx, x)]


def whole(ctx: GraphBuilder, low: Value, high: Value) -> Value:
    """64-bit numbers of two words."""
    return binary(ctx, "BITWISE_OR", low, binary(ctx, "LEFTSHIFT", high, 32))


def scrambled(ctx: GraphBuilder, seed: Words) -> State:
    """The state that TensorFlow makes of a seed of four words, so that near seeds give numbers that are not."""
    key = [ctx.const_like(k, seed[0]) for k in (0x3EC8F720, 0x02461E29)]
    mixed = block(ctx, State(key, seed))
    zero = ctx.const_like(0, seed[0])
    return State(mixed[:2], [zero, zero, *mixed[2:]])


def blocks(ctx: GraphBuilder, state: State, count: Value) -> Words:
    """Four words each ``[count]``, of counters that follow one another; a carry beyond 64 bits is left out."""
    line = ctx.op("Range", ctx.const(0, DType.I64), count, ctx.const(1, DType.I64))
    line.dtype = DType.I64
    turns = ctx.op("Cast", line, dstT=data_type(DType.U64))
    turns.dtype = DType.U64
    place = binary(ctx, "ADD", turns, whole(ctx, *state.counter[:2]))
    return block(ctx, State(state.key, [*halves(ctx, place), *state.counter[2:]]))


def block(ctx: GraphBuilder, state: State) -> Words:
    """Four random words for each counter."""
    a, b, c, d = state.counter
    first, second = state.key
    for turn in range(_ROUNDS):
        p, q = binary(ctx, "MUL", a, _FACTORS[0]), binary(ctx, "MUL", c, _FACTORS[1])
        k0 = _low(ctx, binary(ctx, "ADD", first, turn * _STEPS[0] & _WORD))
        k1 = _low(ctx, binary(ctx, "ADD", second, turn * _STEPS[1] & _WORD))
        a = binary(ctx, "BITWISE_XOR", binary(ctx, "BITWISE_XOR", _high(ctx, q), b), k0)
        c = binary(ctx, "BITWISE_XOR", binary(ctx, "BITWISE_XOR", _high(ctx, p), d), k1)
        b, d = _low(ctx, q), _low(ctx, p)
    return [a, b, c, d]
