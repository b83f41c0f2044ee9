"""The loss of sequences whose places are not known: connectionist temporal classification (A. Graves et al. 2006)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from MNN.frontends.common.expressions import select
from MNN.frontends.torch.aten.losses.distances import gathered
from MNN.frontends.torch.builder import TorchBuilder
from MNN.frontends.torch.numbers import Int
from MNN.frontends.torch.registry import apply, aten
from MNN.ir.dtype import DType
from MNN.ir.graph import Graph, Value

Lengths = Value | Sequence[Int] | Int


@aten("ctc_loss")
def ctc_loss(
    ctx: TorchBuilder, log_probs: Value, targets: Value, input_lengths: Lengths, target_lengths: Lengths,
    blank: int = 0, reduction: int = 1, zero_infinity: bool = False,
) -> Value:  # fmt: skip
    """``log_probs [T, N, C]`` or ``[T, C]``, ``targets [N, S]``, or one after another; the mean is of losses per
    target."""
    alone = ctx.rank_of(log_probs) == 2
    lines = ctx.unsqueeze(log_probs, 1) if alone else log_probs
    wanted = ctx.unsqueeze(targets, 0) if alone and ctx.rank_of(targets) == 1 else targets
    given, asked = (_lengths(ctx, v) for v in (input_lengths, target_lengths))
    out = _likelihoods(ctx, lines, wanted, given, asked, blank)
    if zero_infinity:
        out = apply(ctx, "where", [ctx.binary("EQUAL", out, math.inf), 0.0, out], {})
    if reduction == 1:
        out = ctx.binary("REALDIV", out, ctx.cast(ctx.binary("MAXIMUM", asked, 1), ctx.type_of(out)))
    return ctx.squeeze(out, 0) if alone and reduction == 0 else gathered(ctx, out, reduction)


@aten("_ctc_loss")
def likelihoods(
    ctx: TorchBuilder, log_probs: Value, targets: Value, input_lengths: Lengths, target_lengths: Lengths,
    blank: int = 0, zero_infinity: bool = False,
) -> list[Value | None]:  # fmt: skip
    """The loss of each sample, infinite ones too; the second result is for training."""
    return [ctc_loss(ctx, log_probs, targets, input_lengths, target_lengths, blank, 0), None]


def _lengths(ctx: TorchBuilder, given: Lengths) -> Value:
    """``[N]`` (i64)."""
    if not isinstance(given, Value):
        given = ctx.ints(list(given) if isinstance(given, (list, tuple)) else [given])  # type: ignore[list-item]
    return ctx.op("Reshape", ctx.cast(given, DType.I64), ctx.const([-1]))


def _likelihoods(
    ctx: TorchBuilder, lines: Value, targets: Value, given: Value, asked: Value, blank: int
) -> Value:  # fmt: skip
    """Minus the logarithm of how likely each target is, ``[N]``.

    States are the target's classes with blanks around each; a path stays, goes on by one, or by two over the blank
    between different classes.
    """
    dtype = ctx.type_of(lines)
    if ctx.rank_of(targets) == 1:
        targets = _apart(ctx, targets, asked)
    targets = ctx.cast(targets, DType.I64)
    inside = ctx.binary("LESS", apply(ctx, "arange", [ctx.size(targets, 1)], {}), ctx.unsqueeze(asked, 1))
    targets = apply(ctx, "where", [inside, targets, blank], {})  # behind its end anything may stand, -100 too
    blanks = ctx.op("Fill", ctx.shape_like(targets), ctx.const(np.int64(blank)))
    states = apply(ctx, "flatten", [ctx.op("Pack", blanks, targets, axis=2), 1], {})
    states = apply(ctx, "constant_pad_nd", [states, [0, 1], blank], {})  # [N, 2S + 1]
    before = apply(ctx, "constant_pad_nd", [apply(ctx, "slice", [states, 1, 0, -2], {}), [2, 0], blank], {})
    differ = apply(
        ctx, "logical_and", [ctx.binary("NOTEQUAL", states, blank), ctx.binary("NOTEQUAL", states, before)], {}
    )
    place = apply(ctx, "arange", [ctx.size(states, 1)], {})
    skips = apply(ctx, "logical_and", [differ, ctx.binary("GREATER", place, 1)], {})
    wide = ctx.expand(
        ctx.unsqueeze(states, 0), ctx.ints([ctx.size(lines, 0), ctx.size(states, 0), ctx.size(states, 1)])
    )
    shares = apply(ctx, "gather", [lines, 2, wide], {})  # [T, N, 2S + 1]
    first = apply(ctx, "select", [shares, 0, 0], {})
    first = apply(ctx, "where", [ctx.binary("LESS", place, 2), first, -math.inf], {})
    turns = apply(ctx, "slice", [apply(ctx, "arange", [ctx.size(lines, 0)], {}), 0, 1], {})
    rest = apply(ctx, "slice", [shares, 0, 1], {})
    last = _walked(ctx, first, rest, turns, skips, given)
    twice = ctx.unsqueeze(ctx.binary("MUL", asked, 2), 1)
    at_end = apply(ctx, "gather", [last, 1, twice], {})
    at_class = apply(ctx, "gather", [last, 1, ctx.binary("MAXIMUM", ctx.binary("SUB", twice, 1), 0)], {})
    empty = ctx.binary("EQUAL", asked, 0)
    at_class = apply(ctx, "where", [ctx.unsqueeze(empty, 1), -math.inf, at_class], {})
    out = ctx.unary("NEG", ctx.squeeze(_sum(ctx, [at_end, at_class]), 1))
    silent = apply(ctx, "where", [empty, ctx.const(np.zeros((), dtype.numpy)), math.inf], {})
    return apply(ctx, "where", [ctx.binary("EQUAL", given, 0), silent, out], {})  # type: ignore[no-any-return]


def _apart(ctx: TorchBuilder, targets: Value, asked: Value) -> Value:
    """Targets that come one after another, ``[N, S]``: behind the end of each anything may stand."""
    known = ctx.constant(asked)
    longest = ctx.size(targets, 0) if known is None else int(known.max(initial=0))
    begin = ctx.binary("SUB", apply(ctx, "cumsum", [asked, 0], {}), asked)
    places = ctx.binary("ADD", ctx.unsqueeze(begin, 1), apply(ctx, "arange", [longest], {}))
    end = ctx.binary("SUB", ctx.scalar(ctx.size(targets, 0), DType.I64), 1)
    return ctx.op("GatherV2", targets, ctx.binary("MINIMUM", places, end), ctx.const(np.int32(0)))


def _sum(ctx: TorchBuilder, logs: Sequence[Value]) -> Value:
    """The logarithm of a sum, of logarithms that may be minus infinity."""
    largest = logs[0]
    for x in logs[1:]:
        largest = ctx.binary("MAXIMUM", largest, x)
    safe = apply(ctx, "where", [ctx.binary("EQUAL", largest, -math.inf), 0.0, largest], {})
    total: Value | None = None
    for x in logs:
        share = ctx.unary("EXP", ctx.binary("SUB", x, safe))
        total = share if total is None else ctx.binary("ADD", total, share)
    assert total is not None
    return ctx.binary("ADD", ctx.unary("LOG", total), safe)


def _walked(ctx: TorchBuilder, first: Value, shares: Value, turns: Value, skips: Value, given: Value) -> Value:
    """The logarithms of how likely each state is at the end of each input; ``shares [T - 1, N, states]``."""
    inner = [
        Value(ctx.unique(f"state.{i}"), v.dtype, None if v.shape is None else v.shape[cut:])
        for i, (v, cut) in enumerate([(first, 0), (shares, 1), (turns, 1)])
    ]
    body = TorchBuilder(ctx.model, Graph(name="body", inputs=inner), ctx)
    body.where = ctx.where
    alpha, share, turn = inner
    shifted = [
        apply(body, "constant_pad_nd", [apply(body, "slice", [alpha, 1, 0, -n], {}), [n, 0], -math.inf], {})
        for n in (1, 2)
    ]
    jumped = apply(body, "where", [skips, shifted[1], -math.inf], {})
    found = body.binary("ADD", _sum(body, [alpha, shifted[0], jumped]), share)
    on = body.unsqueeze(body.binary("LESS", turn, given), 1)
    body.graph.outputs = [select(body, on, found, alpha)]
    (out,) = ctx.emit("Scan", [first, shares, turns], 1, body=body.graph, numScanInputs=2)
    out.dtype, out.shape = first.dtype, first.shape
    return out
