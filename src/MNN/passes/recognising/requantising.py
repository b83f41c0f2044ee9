"""Bytes that become other bytes, by way of a float that is bounded perhaps, are multiplied by one number.

Tools that quantise each operator's result by itself (PT2E with XNNPACK's quantiser) write a convolution and the ReLU6
behind it as two roundings, ``DequantizeLinear, ReLU6, QuantizeLinear`` between them. There are 256 bytes: where
``round((byte - zero) * factor)``, saturated and between two bytes, is for each of them what the operators give,
exactly, these become a DequantizeLinear by the factor and a QuantizeLinear by 1, and bounds of bytes where they change
something: the division, which takes two products, is gone, and where both sides have one scale (those of ReLU6 share
it) all but the bounds.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from MNN.ir.graph import Graph, Node, Value
from MNN.ops.core.base import traits
from MNN.ops.quantized.quantization import limits
from MNN.passes.manager import Pass
from MNN.passes.patterns import plain
from MNN.passes.recognising.quantized_numbers import Numbers, numbers, parameters
from MNN.passes.rewrite import Rewriter

_NEIGHBOURS = 2
"""Factors tried are the quotient of the scales in f32, and so many floats on either side of it."""


def run(graph: Graph) -> int:
    rw = Rewriter(graph)
    for node in list(rw.nodes()):
        if node.op == "QuantizeLinear":
            _requantised(rw, node)
    return rw.finish()


def _requantised(rw: Rewriter, node: Node) -> None:
    result, x = parameters(node, node.outputs[0]), node.inputs[0]
    if result is None or not result.one or result.dtype.size != 1 or result.scales.item() == 1:
        return
    bounds: list[tuple[float, float]] = []
    removed: list[Node] = []
    while (given := numbers(rw, x)) is None:
        maker = rw.maker(x)
        bound = None if maker is None else traits(maker).bounds(maker)
        if x is None or maker is None or bound is None or not rw.used_once(x):
            return
        bounds.insert(0, bound)
        removed.append(maker)
        x = maker.inputs[0]
    found = _form(given, result, bounds) if given.one and given.dtype.size == 1 else None
    before = rw.maker(x)
    if found is None or x is None or before is None or (not removed and found.factor == 1):
        return
    held, out = given.integers, node.outputs[0]
    ends = [("MAXIMUM", found.low), ("MINIMUM", found.high)]
    made: list[Node] = []
    if not found.same:
        steps, held = (Value(rw.unique(f"{out.name}/{n}"), v.dtype, x.shape) for n, v in (("steps", x), ("bytes", out)))
        factor, one = (
            rw.constant(f"{node.name}/{n}", np.array(v, np.float32)) for n, v in (("f", found.factor), ("1", 1))
        )
        made.append(
            Node("DequantizeLinear", f"{node.name}/steps", [given.integers, factor, *before.inputs[2:3]], [steps])
        )
        made.append(Node(node.op, f"{node.name}/bytes", [steps, one, *node.inputs[2:]], [held], dict(node.attrs)))
    for kind, end in ends:
        if end is not None:
            limit = rw.constant(f"{node.name}/{kind.lower()}", np.array(end, result.dtype.numpy))
            inner = Value(rw.unique(f"{out.name}/{kind.lower()}"), result.dtype, x.shape)
            made.append(Node("BinaryOp", f"{node.name}/{kind.lower()}", [held, limit], [inner], {"opType": kind}))
            held = inner
    if not made:
        rw.bypass(node, given.integers)
    else:
        made[-1].outputs = [out]
        for part in made[:-1]:
            rw.insert(part, node)
        rw.swap(node, made[-1])
    for old in removed:
        rw.remove(old)


@dataclass(frozen=True)
class _Form:
    """``round((byte - zero) * factor)``, not below ``low`` nor above ``high`` where these are given; ``same``: the byte
    itself."""

    factor: np.float32
    same: bool
    low: int | None
    high: int | None


def _zero(of: Numbers) -> int:
    return 0 if of.zero is None else int(np.asarray(plain(of.zero)).reshape(-1)[0])


def _form(given: Numbers, result: Numbers, bounds: list[tuple[float, float]]) -> _Form | None:
    """The form that gives the same bytes; None where there is none."""
    codes, ends = limits(given.dtype), limits(result.dtype)
    zero, last = _zero(result), np.float32(result.scales.item())
    whole = np.arange(codes[0], codes[1] + 1) - _zero(given)
    found = whole.astype(np.float32) * np.float32(given.scales.item())
    for low, high in bounds:
        found = np.minimum(np.maximum(found, np.float32(low)), np.float32(high))
    wanted = np.clip(np.round(found / last) + zero, *ends)
    middle = np.float32(given.scales.item() / float(last))
    tried = [middle]
    for _ in range(_NEIGHBOURS):
        tried = [np.nextafter(tried[0], np.float32(0)), *tried, np.nextafter(tried[-1], np.float32(np.inf))]
    least, most = int(wanted.min()), int(wanted.max())
    for factor in sorted(tried, key=lambda v: abs(v - middle)):
        bytes_ = np.clip(np.round(whole.astype(np.float32) * factor) + zero, *ends)
        if (np.clip(bytes_, least, most) == wanted).all():
            same = factor == 1 and zero == _zero(given) and given.dtype is result.dtype
            below, above = bytes_.min() < least, bytes_.max() > most
            return _Form(factor, bool(same), least if below else None, most if above else None)
    return None


PASS = Pass("requantising", run, rank=6)
