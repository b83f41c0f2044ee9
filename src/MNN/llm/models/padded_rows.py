"""Batches that are padded on the left, as recurrent layers see them."""

from __future__ import annotations

import numpy as np

from MNN.ir.graph import Value
from MNN.llm.models.arithmetic import Arithmetic


def whole_rows(net: Arithmetic, tokens: Value) -> Value:
    """The segments of a batch whose rows are texts of their own: i64 ``[batch, 4]``."""
    rows, length = _sizes(net, tokens)
    numbers = net.op("Range", net.const(np.int64(0)), rows, net.const(np.int64(1)), Tidx="DT_INT64")
    first = net.op("BinaryOp", numbers, length, opType="MUL")
    count = net.add(net.op("BinaryOp", numbers, net.const(np.int64(0)), opType="MUL"), length)
    return net.concat([net.op("Unsqueeze", part, squeezeDims=[1]) for part in (first, count, numbers, numbers)], 1)


def real_tokens(net: Arithmetic, tokens: Value, first: Value, seen: Value) -> tuple[Value, Value]:
    """Which tokens are no padding, f32 ``[batch, sequence, 1]``, where ``seen`` i64 ``[batch]`` were there before; and
    how many then are."""
    _, length = _sizes(net, tokens)
    places = net.op("Range", net.const(np.int64(0)), length, net.const(np.int64(1)), Tidx="DT_INT64")
    places = net.add(places, net.op("Unsqueeze", seen, squeezeDims=[1]))
    inside = net.op("BinaryOp", places, net.op("Unsqueeze", first, squeezeDims=[1]), opType="GREATER_EQUAL")
    return net.op("Unsqueeze", net.op("Cast", inside, dstT="DT_FLOAT"), squeezeDims=[2]), net.add(seen, length)


def _sizes(net: Arithmetic, tokens: Value) -> list[Value]:
    shape = net.op("Shape", tokens)
    return [net.op("Cast", net.gather(shape, net.const(np.array(axis))), dstT="DT_INT64") for axis in (0, 1)]


__all__ = ["real_tokens", "whole_rows"]
