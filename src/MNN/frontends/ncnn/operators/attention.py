"""Attention, and positions by rotation."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from MNN.frontends.ncnn.context import Context
from MNN.frontends.ncnn.node import NcnnNode
from MNN.frontends.ncnn.operators.products import block_format, unpacked
from MNN.frontends.ncnn.params import Params
from MNN.frontends.ncnn.registry import ncnn_layer
from MNN.frontends.ncnn.weights import WeightReader
from MNN.ir.graph import Value

_NAMES = ("q", "k", "v", "out")


def _matrices(p: Params) -> dict[str, tuple[int, int]]:
    """``[O, K]`` of the four products."""
    width = p.integer(0)
    queries = p.integer(2) // max(width, 1)
    return {
        "q": (width, queries),
        "k": (width, p.integer(3, width)),
        "v": (width, p.integer(4, width)),
        "out": (queries, width),
    }


def _weights(p: Params, r: WeightReader) -> dict[str, np.ndarray]:
    shapes, term = _matrices(p), p.integer(18)
    block = block_format(term)
    found: dict[str, np.ndarray] = {}
    for name, (rows, cols) in shapes.items():
        found[name] = r.tagged(rows * (-(-cols * block[0] // 8) if block else cols))
        found[f"{name}_bias"] = r.plain(rows)
    for name, (rows, cols) in shapes.items():
        if block:
            found[f"{name}_scales"] = r.plain(rows * -(-cols // block[1]))
        elif term:
            found[f"{name}_scales"] = r.plain(1 if name == "out" else rows)
    if block and block[2]:
        found |= {f"{name}_input_scales": r.plain(cols) for name, (_, cols) in shapes.items()}
    return found


@ncnn_layer("MultiHeadAttention", weights=_weights)
def multi_head_attention(ctx: Context, node: NcnnNode) -> Value:
    """Operands: queries, keys and values (as far as they differ), then a mask that is added to scores."""
    p = node.params
    if p.flag(7):
        raise node.unsupported("a cache of keys and values", "export the network without it")
    given = list(node.inputs)
    mask = given.pop() if p.flag(5) and len(given) > 1 else None
    if not given:
        raise node.malformed("it has no operands")
    sources = [given[0], given[min(1, len(given) - 1)], given[-1]]
    width, heads = p.integer(0), p.integer(1, 1)
    if heads < 1 or width < 1 or width % heads:
        raise node.malformed(f"{width} numbers in {heads} heads")
    each = width // heads
    q, k, v = (
        _heads(ctx, _projected(ctx, node, name, ctx.expect(node, x, 2)), heads, each)
        for name, x in zip(_NAMES, sources, strict=False)
    )
    scores = ctx.op("MatMul", ctx.binary("MUL", q, p.real(6, 1 / math.sqrt(each))), k, transposeB=True)
    weights = _weighed(ctx, node, scores, mask)
    joined = ctx.op("Permute", ctx.op("MatMul", weights, v), dims=[0, 2, 1, 3])
    return _projected(ctx, node, "out", ctx.op("Reshape", joined, ctx.const([1, -1, width])))


def _heads(ctx: Context, x: Value, heads: int, each: int) -> Value:
    """``[1, length, width]`` as ``[1, heads, length, each]``."""
    return ctx.op("Permute", ctx.op("Reshape", x, ctx.const([1, -1, heads, each])), dims=[0, 2, 1, 3])


def _weighed(ctx: Context, node: NcnnNode, scores: Value, mask: Value | None) -> Value:
    if mask is not None:
        matrix = ctx.dims(node, mask) == 2
        scores = ctx.binary("ADD", scores, ctx.op("Unsqueeze", mask, squeezeDims=[1]) if matrix else mask)
    return ctx.op("Softmax", scores, axis=-1)


def _projected(ctx: Context, node: NcnnNode, name: str, x: Value) -> Value:
    rows, cols = _matrices(node.params)[name]
    block = block_format(node.params.integer(18))
    if node.has_weight(f"{name}_input_scales"):
        x = ctx.binary("MUL", x, ctx.const(node.weights(f"{name}_input_scales")))
    if block:
        numbers = unpacked(node.weights(name).reshape(rows, -1), block[0], cols)
        weight = ctx.compressed(numbers, node.weights(f"{name}_scales").reshape(rows, -1))
    else:
        found = node.weight(name, (rows, cols))
        scaled = found.dtype == np.int8
        weight = ctx.compressed(found, node.weights(f"{name}_scales")) if scaled else ctx.const(found)
    return ctx.op("MatMul", x, weight, ctx.const(node.weight(f"{name}_bias", [rows])), transposeB=True)


@ncnn_layer("SDPA")
def sdpa(ctx: Context, node: NcnnNode) -> list[Value]:
    """Operands: queries ``[heads, length, width]``, keys and values (of as many heads or fewer), a mask, and the keys
    and values of earlier runs, to which those of this one are appended."""
    p, x = node.params, ctx.expect(node, node.input(0), 3)
    rest = list(node.inputs[1:])
    if len(rest) < 2 + p.flag(5) + 2 * p.flag(7):
        raise node.malformed(f"{len(node.inputs)} operands are too few")
    key, value = rest[:2]
    mask = rest[2] if p.flag(5) else None
    if p.flag(7):
        past = rest[2 + p.flag(5) :]
        key, value = (ctx.op("Concat", before, now, axis=2) for before, now in zip(past, (key, value), strict=False))
    scale = p.real(6)
    if scale == 0:
        scale = 1 / math.sqrt(ctx.known_extent(node, x, 3, "the width of queries"))
    keys, values = (_repeated(ctx, node, t, x) for t in (key, value))
    scores = ctx.binary("MUL", ctx.op("MatMul", x, keys, transposeB=True), scale)
    out = ctx.op("MatMul", _weighed(ctx, node, scores, mask), values)
    return [out, key, value][: max(len(node.outputs), 1)]


def _repeated(ctx: Context, node: NcnnNode, x: Value, queries: Value) -> Value:
    """Each head as often as there are queries' heads for it."""
    heads = ctx.known_extent(node, queries, 1, "a number of heads")
    groups = ctx.known_extent(node, x, 1, "a number of heads")
    if heads == groups:
        return x
    if heads % groups:
        raise node.malformed(f"{heads} heads of queries for {groups} of keys")
    return ctx.op("GatherV2", x, ctx.const(np.repeat(np.arange(groups), heads // groups)), ctx.const(np.int32(1)))


@ncnn_layer("RotaryEmbed")
def rotary_embed(ctx: Context, node: NcnnNode) -> Value:
    """Pairs of numbers turned by angles whose cosines and sines are operands ``[length, width / 2]``; pairs are
    neighbours, or lie half the width apart."""
    x = ctx.expect(node, node.input(0), 3)
    cos, sin = (ctx.op("Unsqueeze", node.input(i), squeezeDims=[1]) for i in (1, 2))
    if not node.params.flag(0):
        first, second = ctx.emit("Slice", [x], 2, axis=3, sourceType="TORCH")
        return ctx.op("Concat", *_turned(ctx, (first, second), cos, sin), axis=3)
    width = ctx.known_extent(node, x, 3, "the width of heads")
    heads = ctx.known_extent(node, x, 1, "a number of heads")
    pairs = ctx.op("Reshape", x, ctx.const([1, heads, -1, width // 2, 2]))
    first, second = (ctx.op("GatherV2", pairs, ctx.const(np.int32(i)), ctx.const(np.int32(4))) for i in (0, 1))
    both = [ctx.op("Unsqueeze", t, squeezeDims=[4]) for t in _turned(ctx, (first, second), cos, sin)]
    return ctx.op("Reshape", ctx.op("Concat", *both, axis=4), ctx.const([1, heads, -1, width]))


def _turned(ctx: Context, pair: Sequence[Value], cos: Value, sin: Value) -> list[Value]:
    x, y = pair
    left = ctx.binary("SUB", ctx.binary("MUL", x, cos), ctx.binary("MUL", y, sin))
    return [left, ctx.binary("ADD", ctx.binary("MUL", x, sin), ctx.binary("MUL", y, cos))]
