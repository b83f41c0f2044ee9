"""Recognises scaled dot-product attention (Vaswani et al. 2017, arXiv:1706.03762) and writes it as one operator.

``softmax(q k^T * scale + mask) v`` over four axes ``[1, heads, length, size]`` becomes MNN's Attention without a
key-value cache. Level 2: the official engine runs that operator only in builds that have it, and for one sample. Where
a mask forbids a query every key with minus infinity, the result is 0 and not NaN; without a mask both lengths must be
known.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from MNN.ir.dtype import DType
from MNN.ir.graph import Graph, Node, Value
from MNN.passes.manager import Pass
from MNN.passes.patterns import attribute, binary, keeps_rank, scalar, sides, with_constant
from MNN.passes.rewrite import Rewriter
from MNN.passes.symbols import dims_of


@dataclass
class Found:
    """Queries ``[B, H, S, D]``, keys ``[B, H, D, T]``, values ``[B, H, T, D]`` and what happens in between."""

    q: Value
    keys: Value
    v: Value
    scale: float
    mask: Value | None
    inside: list[Node]


def run(graph: Graph) -> int:
    rw = Rewriter(graph)
    for node in [n for n in rw.nodes() if n.op == "MatMul"]:
        found = _find(rw, node)
        if found is not None:
            _replace(rw, node, found)
    return rw.finish()


def _product(node: Node | None) -> bool:
    """A plain product of two variables."""
    if (
        node is None
        or node.op != "MatMul"
        or len(node.inputs) != 2
        or any(v is None or v.is_const for v in node.inputs)
    ):
        return False
    return not attribute(node, "transposeA") and not attribute(node, "transposeB")


def _find(rw: Rewriter, node: Node) -> Found | None:
    softmax = rw.made_by(node.inputs[0], "Softmax") if _product(node) else None
    if softmax is None or int(attribute(softmax, "axis")) not in (-1, 3):
        return None
    inside, mask, scale = [softmax], None, 1.0
    current = rw.maker(softmax.inputs[0])
    if current is not None and binary(current, "ADD"):
        first, second = sides(current)
        scores, mask = (first, second) if _leads_to_product(rw, first) else (second, first)
        inside.append(current)
        current = rw.maker(scores)
    if current is not None and binary(current, "MUL", "DIV", "REALDIV"):
        parts = with_constant(current)
        number = scalar(parts[1]) if parts is not None and keeps_rank(parts[1], parts[0]) else None
        if parts is None or number is None or number == 0 or (parts[2] and not binary(current, "MUL")):
            return None
        scale = number if binary(current, "MUL") else 1.0 / number
        inside.append(current)
        current = rw.maker(parts[0])
    if current is None or not _product(current):
        return None
    inside.append(current)
    q, keys, v = current.inputs[0], current.inputs[1], node.inputs[1]
    if q is None or keys is None or v is None or not _fits(q, keys, v, mask):
        return None
    if scale <= 0 or any(not rw.within(n.outputs[0], [*inside, node]) for n in inside):
        return None
    return Found(q, keys, v, scale, mask, inside)


def _leads_to_product(rw: Rewriter, value: Value) -> bool:
    node = rw.maker(value)
    if node is not None and binary(node, "MUL", "DIV", "REALDIV"):
        parts = with_constant(node)
        node = rw.maker(parts[0]) if parts is not None else None
    return _product(node)


def _fits(q: Value, keys: Value, v: Value, mask: Value | None) -> bool:
    """Four axes, as many heads everywhere, sizes known; heads of keys and values equal to the queries'. The official
    engine's operator knows neither batches nor masks of single heads: of these it would read the first alone."""
    sizes = [dims_of(t) for t in (q, keys, v)]
    if any(s is None or len(s) != 4 or not isinstance(s[1], int) for s in sizes):
        return False
    a, b, c = (s for s in sizes if s is not None)
    if not a[1] == b[1] == c[1] or not isinstance(a[3], int) or a[3] != b[2] or a[3] != c[3]:
        return False
    if any(t.dtype is not DType.F32 for t in (q, keys, v)):
        return False
    if not a[0] == b[0] == c[0] == 1:
        return False
    if mask is None:
        return isinstance(a[2], int) and isinstance(b[3], int)
    around = dims_of(mask)
    return mask.dtype is DType.F32 and around is not None and len(around) <= 4 and all(d == 1 for d in around[:-2])


def _whole_mask(rw: Rewriter, node: Node, found: Found) -> Value:
    """The mask with a row for every query, as the official engine reads it."""
    mask, rows = found.mask, dims_of(found.q)
    sizes = dims_of(mask)
    assert mask is not None
    assert rows is not None
    assert sizes is not None
    if len(sizes) >= 2 and sizes[-2] == rows[2] and rows[2] is not None:
        return mask
    # in self-attention the mask itself tells the number of queries, once for all layers
    square = len(sizes) >= 1 and sizes[-1] == rows[2] and rows[2] is not None
    source, at = (mask, len(sizes) - 1) if square else (found.q, 2)
    base = f"{node.outputs[0].name}/mask"

    def index(*numbers: int) -> Value:
        return rw.constant(f"{base}/index", np.array(numbers, dtype=np.int64))

    def add(op: str, inputs: list[Value | None], role: str, dtype: DType, **attrs: object) -> Value:
        made = Value(rw.unique(f"{base}/{role}"), dtype)
        rw.insert(Node(op, made.name, inputs, [made], dict(attrs)), before=node)
        return made

    shape = add("Shape", [source], "sizes", DType.I64, outputDataType="DT_INT64")
    count = add("StridedSlice", [shape, index(at), index(at + 1), index(0)], "rows", DType.I64, fromType=1)
    target = add("Concat", [index(1, 1), count, index(1)], "target", DType.I64, axis=0)
    return add("BroadcastTo", [mask, target], "whole", DType.F32)


def _open_mask(rw: Rewriter, found: Found, base: str) -> Value:
    """Zeros: without a mask the official engine lets no query look ahead."""
    rows, keys = dims_of(found.q), dims_of(found.keys)
    assert rows is not None
    assert keys is not None
    return rw.constant(f"{base}/mask", np.zeros((1, 1, int(rows[2] or 0), int(keys[3] or 0)), np.float32))


def _replace(rw: Rewriter, node: Node, found: Found) -> None:
    out, sizes = node.outputs[0], dims_of(found.q)
    assert sizes is not None
    heads, size = sizes[1], sizes[3]
    assert isinstance(size, int)
    operands: list[Value | None] = []
    orders = (("q", found.q, [0, 2, 1, 3]), ("k", found.keys, [0, 3, 1, 2]), ("v", found.v, [0, 2, 1, 3]))
    for role, value, order in orders:
        shape = None if value.shape is None else tuple(value.shape[a] for a in order)
        moved = Value(rw.unique(f"{out.name}/{role}"), value.dtype, shape)
        rw.insert(Node("Permute", moved.name, [value], [moved], {"dims": order}), before=node)
        operands.append(moved)
    factor = found.scale * math.sqrt(size)
    if abs(factor - 1.0) > 1e-6:  # the official engine divides by the root of the size whatever the file says
        number = rw.constant(f"{out.name}/factor", np.asarray(factor, np.float32))
        scaled = Value(rw.unique(f"{out.name}/scaled"), DType.F32, None if operands[0] is None else operands[0].shape)
        product = Node("BinaryOp", scaled.name, [operands[0], number], [scaled], {"opType": "MUL"})
        rw.insert(product, before=node)
        operands[0] = scaled
    operands.append(_whole_mask(rw, node, found) if found.mask is not None else _open_mask(rw, found, out.name))
    flat, split = (Value(rw.unique(f"{out.name}/{role}"), out.dtype) for role in ("flat", "heads"))
    rw.insert(Node("Attention", node.name, operands, [flat], {"kv_cache": False}), before=node)
    target = rw.constant(f"{out.name}/shape", np.array([0, 0, heads, size], dtype=np.int64))
    rw.insert(Node("Reshape", split.name, [flat, target], [split]), before=node)
    rw.swap(node, Node("Permute", out.name, [split], [out], {"dims": [0, 2, 1, 3]}))
    for inner in found.inside:
        rw.remove(inner)


PASS = Pass("attention", run, rank=70, level=2)
