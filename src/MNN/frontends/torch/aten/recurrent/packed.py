"""Packed sequences: the steps of several sequences behind each other, first those of all sequences' first step.

Sequences are sorted, the longest one first (``pack_padded_sequence`` sorts them before). ``sizes[t]`` says how many
have a step ``t``. What is computed of packed sequences is computed of padded ones, ``[T, B, ...]``, with their lengths.
"""

from __future__ import annotations

from typing import Any

from MNN.frontends.torch.builder import TorchBuilder
from MNN.frontends.torch.numbers import Int
from MNN.frontends.torch.registry import apply, aten
from MNN.ir.dtype import DType
from MNN.ir.graph import Value


def steps(ctx: TorchBuilder, sizes: Value) -> Value:
    """Booleans ``[T, B]``: whether sequence ``b`` has a step ``t``."""
    most = apply(ctx, "select", [sizes, 0, 0], {})
    places = apply(ctx, "arange", [apply(ctx, "Int", [most], {})], {})
    return _call(ctx, "lt", ctx.unsqueeze(places, 0), ctx.unsqueeze(sizes, 1))


def lengths(ctx: TorchBuilder, there: Value) -> Value:
    """How long each sequence is, i64 ``[B]``."""
    return _call(ctx, "sum", ctx.cast(there, DType.I64), [0])


def padded(ctx: TorchBuilder, data: Value, sizes: Value, there: Value) -> Value:
    """Packed steps ``[N, ...]`` as ``[T, B, ...]``; where a sequence has ended, it has any step."""
    first = ctx.unsqueeze(_call(ctx, "sub", _call(ctx, "cumsum", sizes, 0), sizes), 1)
    number = _call(ctx, "sub", _call(ctx, "cumsum", ctx.cast(there, DType.I64), 1), 1)
    return _call(ctx, "index", data, [_call(ctx, "add", first, _call(ctx, "where", there, number, 0))])


def packed(ctx: TorchBuilder, x: Value, there: Value) -> Value:
    """The steps ``[N, ...]`` of ``[T, B, ...]`` that sequences have."""
    return _call(ctx, "index", x, [there])


@aten("_pack_padded_sequence")
def pack_padded_sequence(ctx: TorchBuilder, x: Value, lengths: Value, batch_first: bool) -> list[Value]:
    """The steps, and how many sequences have each."""
    if batch_first:
        x = _call(ctx, "transpose", x, 0, 1)
    count = apply(ctx, "Int", [_call(ctx, "select", lengths, 0, 0)], {})
    places = ctx.unsqueeze(apply(ctx, "arange", [count], {}), 1)
    there = _call(ctx, "lt", places, ctx.unsqueeze(lengths, 0))
    steps = _call(ctx, "slice", x, 0, 0, count)
    return [packed(ctx, steps, there), _call(ctx, "sum", ctx.cast(there, DType.I64), [1])]


@aten("_pad_packed_sequence")
def pad_packed_sequence(
    ctx: TorchBuilder, data: Value, sizes: Value, batch_first: bool, padding: float, total_length: Int
) -> list[Value]:
    """``[total_length, B, ...]`` or ``[B, total_length, ...]`` with ``padding`` behind the ends of
    sequences, and their lengths."""
    there = steps(ctx, sizes)
    x = padded(ctx, data, sizes, there)
    shown = ctx.unsqueeze(there, *range(2, ctx.rank_of(x)))
    x = _call(ctx, "where", shown, x, padding)
    more = _call(ctx, "new_full", x, [total_length, *ctx.sizes(x)[1:]], padding)
    x = _call(ctx, "slice", _call(ctx, "cat", [x, more], 0), 0, 0, total_length)
    return [_call(ctx, "transpose", x, 0, 1) if batch_first else x, lengths(ctx, there)]


def _call(ctx: TorchBuilder, name: str, *args: Any) -> Value:
    made = apply(ctx, name, args, {})
    assert isinstance(made, Value)
    return made
