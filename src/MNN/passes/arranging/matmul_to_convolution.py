"""Matrix products with constant weights as convolutions with a kernel of 1.

Level 2. The official engine packs a convolution's weights once and a product's at every run, and its tools compress the
weights of convolutions only. This engine packs constants once either way.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from MNN.ir.dtype import DType
from MNN.ir.graph import Graph, Node, Value
from MNN.ir.quant import QuantizedArray
from MNN.passes.folding import affine
from MNN.passes.manager import Pass
from MNN.passes.patterns import attribute, floats
from MNN.passes.rewrite import Rewriter
from MNN.passes.symbols import dims_of


def run(graph: Graph) -> int:
    """``x[..., K] @ w[K, N] + b`` for float32 of which at most one leading size is unknown."""
    rw = Rewriter(graph)
    for node in [n for n in rw.nodes() if n.op == "MatMul" and not attribute(n, "transposeA")]:
        x = node.inputs[0]
        sizes = dims_of(x)
        if x is None or x.is_const or sizes is None or len(sizes) < 2:
            continue
        target = affine.linear(rw, node.outputs[0])
        bias = affine.bias_of(target) if target is not None else None
        lead = [d if isinstance(d, int) else -1 for d in sizes[:-1]]
        if target is None or bias is None or x.dtype is not DType.F32 or lead.count(-1) > 1 or 0 in lead:
            continue
        weight = _rows(node)
        if weight is not None:
            _replace(rw, node, x, lead, weight, bias)
    return rw.finish()


def _rows(node: Node) -> np.ndarray | QuantizedArray | None:
    """The constant right side of a product as rows ``[N, K]``."""
    given = node.inputs[1] if len(node.inputs) > 1 else None
    transposed = bool(attribute(node, "transposeB"))
    if given is not None and isinstance(given.data, QuantizedArray):
        return given.data if transposed and len(given.data.shape) == 2 else None
    weight = floats(given)
    if weight is None or weight.ndim != 2:
        return None
    return np.ascontiguousarray(weight if transposed else weight.T)


def _replace(
    rw: Rewriter, node: Node, x: Value, lead: list[int], rows: np.ndarray | QuantizedArray, bias: np.ndarray
) -> None:
    count, depth = rows.shape
    out, base = node.outputs[0], node.outputs[0].name
    picture, made = (Value(rw.unique(f"{base}/{role}"), x.dtype) for role in ("picture", "columns"))
    first = rw.constant(f"{base}/picture/shape", np.array([-1, depth, 1, 1], dtype=np.int64))
    last = rw.constant(f"{base}/shape", np.array([*lead, count], dtype=np.int64))
    kernel = (count, depth, 1, 1)
    if isinstance(rows, QuantizedArray):
        kept = replace(rows, shape=kernel)
        weight = Value(rw.unique(f"{base}/weight"), DType.F32, kernel, kept)
    else:
        weight = rw.constant(f"{base}/weight", rows.reshape(kernel))
    shift = rw.constant(f"{base}/bias", bias.astype(np.float32))
    attrs: dict[str, object] = {"kernelX": 1, "kernelY": 1, "outputCount": count, "inputCount": depth}
    rw.insert(Node("Reshape", picture.name, [x, first], [picture]), before=node)
    rw.insert(Node("Convolution", node.name, [picture, weight, shift], [made], attrs), before=node)
    rw.swap(node, Node("Reshape", base, [made, last], [out]))


PASS = Pass("matmul-to-convolution", run, rank=75, level=2)
