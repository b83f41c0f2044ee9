"""Constants that are layers."""

from __future__ import annotations

import math

import numpy as np

from MNN.frontends.ncnn.context import Context
from MNN.frontends.ncnn.node import NcnnNode
from MNN.frontends.ncnn.params import Params
from MNN.frontends.ncnn.registry import ncnn_layer
from MNN.frontends.ncnn.weights import WeightReader
from MNN.ir.graph import Value


def shape_of(p: Params) -> list[int]:
    """The sizes that parameters w, h, d and c tell."""
    w, h, d, c = (p.integer(i) for i in (0, 1, 11, 2))
    return [c, d, h, w] if d else [c, h, w] if c else [h, w] if h else [w] if w else [1]


def _weights(p: Params, r: WeightReader) -> dict[str, np.ndarray]:
    count = math.prod(shape_of(p))
    if not p.integer(0):
        return {"data": np.zeros(1, np.float32)}
    return {"data": r.plain(count) if p.integer(21, 1) == 1 else r.tagged(count)}


@ncnn_layer("MemoryData", weights=_weights)
def memory_data(ctx: Context, node: NcnnNode) -> Value:
    return ctx.const(np.ascontiguousarray(node.weight("data", [1, *shape_of(node.params)])))


def _unreachable(ctx: Context, node: NcnnNode) -> list[Value]:
    """Inputs are made by the loader."""
    raise node.malformed("an input with operands")


ncnn_layer("Input")(_unreachable)
