"""Products with compressed weights as convolutions with a kernel of 1, the only form in which files keep them so."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from MNN.frontends.mnn.official.compose import Steps
from MNN.ir.dtype import DType
from MNN.ir.graph import Node, Value
from MNN.ir.quant import QuantizedArray


def compressed_product(node: Node) -> list[Node] | None:
    """``x[..., K] @ W[N, K].T + bias?`` as pictures of one pixel; all sizes in front of K may be unknown."""
    x, y, bias = (node.inputs[i] if i < len(node.inputs) else None for i in range(3))
    if x is None or y is None or not isinstance(y.data, QuantizedArray) or x.dtype is not DType.F32:
        return None
    weight = y.data
    if len(weight.shape) != 2 or not node.attrs.get("transposeB") or node.attrs.get("transposeA") or x.shape == (0,):
        return None
    s, (count, depth) = Steps(node), weight.shape
    kernel = (count, depth, 1, 1)
    held = Value(s.name("weight"), DType.F32, kernel, replace(weight, shape=kernel))
    inside = bias is not None and bias.data is not None and bias.dtype is DType.F32 and bias.data.shape == (count,)
    shift = bias if inside else s.const(np.zeros(count), DType.F32)
    picture = s.op("Reshape", [x, s.ints(-1, depth, 1, 1)], DType.F32)
    made = s.op(
        "Convolution", [picture, held, shift], DType.F32, kernelX=1, kernelY=1, outputCount=count, inputCount=depth
    )
    out = s.op("Reshape", [made, _target(s, x, count)], DType.F32, node.outputs[0].shape)
    if bias is not None and not inside:
        out = s.binary("ADD", out, bias)
    return s.finish([out])


def _target(s: Steps, x: Value, count: int) -> Value:
    """The result's sizes: numbers where at most one is unknown, else computed while running."""
    lead = None if x.shape is None else [d if isinstance(d, int) else -1 for d in x.shape[:-1]]
    if lead is not None and lead.count(-1) <= 1 and 0 not in lead:
        return s.ints(*lead, count)
    front = s.op("StridedSlice", [s.shape(x), s.ints(0), s.ints(-1), s.ints(0)], DType.I64, fromType=1)
    return s.op("Concat", [front, s.ints(count)], DType.I64, axis=0)
